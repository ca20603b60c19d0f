"""The matrix of docs/reference/operations.md#order, pair by pair."""

import re
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from konverge.crds.ops_v1alpha1 import OperationType
from konverge.reconcilers.apps.operations.waiting.conflicts import conflicting

TYPES = get_args(OperationType)
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operations.md"


def documented() -> dict[frozenset[str], set[bool]]:
    """Return the cells of the page's table for each pair, read by rows and by columns."""
    text = PAGE.read_text()
    head, *rows = re.findall(r"^\| (.*)\|$", text[text.index("\n| | Backup") :].partition("\n\n")[0], re.MULTILINE)
    columns = [column.strip().split(", ") for column in head.split("|")[1:]]
    found: dict[frozenset[str], set[bool]] = {}
    for row in rows[1:]:
        name, *cells = (cell.strip() for cell in row.split("|"))
        for types, cell in zip(columns, cells, strict=True):
            for first, second in product(name.strip("*").split(", "), types):
                found.setdefault(frozenset((first, second)), set()).add(cell == "excludes")
    return found


@pytest.mark.parametrize(("first", "second"), list(product(TYPES, TYPES)))
def test_two_types_exclude_each_other_as_the_table_says_in_both_orders(first: str, second: str) -> None:
    said = documented().get(frozenset((first, second)), {False})  # commands have no row
    assert said == {conflicting(first, second)} == {conflicting(second, first)}
    assert conflicting(first, second, exclusive=True)
