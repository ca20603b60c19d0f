"""A thin view of an object, for any form of its parts."""

import pytest

from konverge.objects import Object


@pytest.mark.parametrize("part", [None, "konverge left out", [1], 7])
def test_a_part_of_another_type_reads_as_empty(part: object) -> None:
    found = Object({"metadata": {"name": "a"}, "spec": part, "status": part})
    assert (found.spec, found.status) == ({}, {})
