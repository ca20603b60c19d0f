"""The comparison in `make lint` of type checkers' errors with the announced errors in a file of wrong programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

PROGRAM = """
right()
wrong(a=1)  # error: mypy[call-arg] pyright[reportCallIssue,reportArgumentType]
strange()  # error: pyright[reportUnknownMemberType]
"""


@pytest.fixture
def tool(tree: Tree) -> Any:
    return tree.load("tools/type_errors.py")


def test_each_checker_has_its_expectations_by_line(tool: Any) -> None:
    assert tool.expected(PROGRAM, "mypy", "a.py") == {("a.py", 3): {"call-arg"}}
    assert tool.expected(PROGRAM, "pyright", "a.py") == {
        ("a.py", 3): {"reportCallIssue", "reportArgumentType"},
        ("a.py", 4): {"reportUnknownMemberType"},
    }


def test_errors_are_read_from_what_checkers_write(tool: Any) -> None:
    said = 'a.py:3: error: Too many "x"  [call-arg]\na.py:3: note: see there\nb.py:4: error: No code\nFound 2 errors'
    assert tool.of_mypy(said) == {("a.py", 3): {"call-arg"}, ("b.py", 4): {"No code"}}
    place = {"file": "/r/a.py", "range": {"start": {"line": 2}}}
    reported = {
        "generalDiagnostics": [
            {**place, "severity": "error", "rule": "reportCallIssue", "message": "m"},
            {**place, "severity": "error", "message": "no rule"},
            {**place, "severity": "warning", "rule": "other", "message": "m"},
        ]
    }
    assert tool.of_pyright(json.dumps(reported), Path("/r")) == {("a.py", 3): {"reportCallIssue", "no rule"}}


def test_an_error_that_is_missing_other_or_unexpected_is_a_difference(tool: Any) -> None:
    wanted = {("a.py", 1): frozenset({"x"}), ("a.py", 2): frozenset({"x"}), ("a.py", 3): frozenset({"x"})}
    reported = {("a.py", 1): frozenset({"x"}), ("a.py", 2): frozenset({"y"}), ("b.py", 9): frozenset({"x"})}
    assert tool.differences("mypy", wanted, reported) == [
        "a.py:2: mypy reports y, expected x",
        "a.py:3: mypy reports nothing, expected x",
        "b.py:9: mypy reports x, expected nothing",
    ]


def test_every_wrong_program_is_expected_to_be_an_error_for_both_checkers(tool: Any, tree: Tree) -> None:
    text = (tree.root / tool.WRONG).read_text()
    lines = tool.expected(text, "mypy")
    assert lines.keys() <= tool.expected(text, "pyright").keys()
    assert len(lines) > 30
