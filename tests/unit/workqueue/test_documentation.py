"""The examples in the docstrings run."""

import doctest
import importlib

import pytest

import konverge.workqueue

MODULES = (
    "backoff",
    "core",
    "entry",
    "limiters",
    "metrics",
    "queue",
    "report",
    "schedule",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"konverge.workqueue.{name}"))
    assert results.failed == 0
    assert results.attempted > 0


def test_every_public_class_and_function_has_a_docstring() -> None:
    bare = [
        name for name in konverge.workqueue.__all__ if not getattr(getattr(konverge.workqueue, name), "__doc__", None)
    ]
    assert bare == []
