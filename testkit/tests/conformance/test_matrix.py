"""The matrix verb x kind x feature: every cell is filled, or is absent for a documented reason."""

from conformance.cases import KINDS, load_cases
from conformance.matrix import expected_cells, reasons


def test_every_cell_of_the_matrix_is_filled_and_no_other() -> None:
    filled = {cell for case in load_cases() for cell in case.cells}
    assert expected_cells() - filled == set(), "cells without a case"
    assert filled - expected_cells() == set(), "cells that testkit/tests/conformance/matrix.yaml does not know"


def test_every_absence_has_a_reason_given() -> None:
    given = reasons()
    assert {alias for alias, kind in KINDS.items() if not kind.generic} <= set(given)
    assert [name for name, why in given.items() if not why and name != "plain"] == []


def test_there_are_four_hundred_cases_at_least() -> None:
    assert len(load_cases()) >= 400
