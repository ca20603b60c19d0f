"""The draft of a reconcile: a status of its own, equal to the object's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import Field

from konverge.crds import Status
from konverge.crds.status import readable
from konverge.runtime.controller.status_step import _model_draft

READY = {"type": "Ready", "status": "True", "reason": "Fine", "message": ""}


class Notes(Status):
    names: list[str] = Field(default_factory=list)
    loose: dict[str, Any] = Field(default_factory=dict)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"names": ["a"], "loose": {"deep": {"n": 1}}, "conditions": [READY], "observedGeneration": 3},
        {"names": 5, "conditions": [READY], "observedGeneration": 3},
    ],
    ids=["empty", "valid", "salvaged"],
)
def test_draft_equals_the_object_status_and_shares_nothing_with_it(stored: dict[str, Any]) -> None:
    status = readable(Notes, stored)
    draft = _model_draft(Notes, stored, ())
    assert isinstance(draft, Notes)
    assert draft == status
    assert draft.model_fields_set == status.model_fields_set
    before = msgspec.json.encode(stored)
    draft.names.append("b")
    draft.loose.setdefault("deep", {})["n"] = 2
    assert msgspec.json.encode(stored) == before
