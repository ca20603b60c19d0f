from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from konverge.crds.decoding import misfit, misfits, name_of, path_of


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), ""),
        (("spec",), ".spec"),
        (("spec", "rules", 0, "host"), ".spec.rules[0].host"),
        (("spec", "labels", "app.kubernetes.io/name"), '.spec.labels["app.kubernetes.io/name"]'),
        (("spec", "labels", "a", "[key]"), ".spec.labels.a"),
    ],
)
def test_a_place_is_written_as_kubectl_does(location: tuple[int | str, ...], path: str) -> None:
    assert path_of(location) == path


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"metadata": {"namespace": "web", "name": "a"}}, "Backup web/a"),
        ({"metadata": {"name": "a"}}, "Backup a"),
        ({"metadata": {}}, "Backup"),
        ({"metadata": "nonsense"}, "Backup"),
        ({}, "Backup"),
    ],
)
def test_an_object_is_named_as_far_as_it_has_a_name(data: dict[str, Any], name: str) -> None:
    assert name_of("Backup", data) == name


def test_a_misfit_at_the_root_is_at_the_dot() -> None:
    class Empty(BaseModel):
        pass

    with pytest.raises(ValidationError) as caught:
        Empty.model_validate("nonsense")
    error = misfit("Backup a", misfits(caught.value)[0])
    assert error.field == "."
    assert "nonsense" not in str(error)


def test_a_path_may_begin_elsewhere() -> None:
    class Inner(BaseModel):
        a: int

    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({})
    assert misfit("Backup a", misfits(caught.value)[0], below=".spec.values").field == ".spec.values.a"
