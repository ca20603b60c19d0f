"""The draft of a pass: a status of its own, equal to the object's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import Field

from konverge.crds import Status
from konverge.crds.status import readable
from konverge.informers import Cached
from konverge.objects import Metadata
from konverge.runtime.passes import _copied

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
def test_a_draft_equals_the_status_of_the_object_and_shares_nothing_with_it(stored: dict[str, Any]) -> None:
    status = readable(Notes, stored)
    draft = _copied(status, Cached(Metadata(name="a"), msgspec.json.encode({"status": stored})))
    assert isinstance(draft, Notes)
    assert draft == status
    assert draft.model_fields_set == status.model_fields_set
    before = status.wire()
    draft.names.append("b")
    draft.loose.setdefault("deep", {})["n"] = 2
    assert status.wire() == before


def test_a_status_that_was_changed_after_it_was_decoded_is_copied_as_it_is() -> None:
    status = Notes(names=["changed"])
    assert _copied(status, Cached(Metadata(name="a"), b'{"status":{"names":["stored"]}}')) == status
