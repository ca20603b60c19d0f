"""The examples in the docstrings run, and every public name has a docstring."""

import doctest
import importlib

import pytest

import konverge.informers

MODULES = (
    *("backoff", "decode", "delivery", "informer", "meters", "reflector"),
    *("problem", "settings", "statistics", "store"),
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"konverge.informers.{name}"))
    assert results.failed == 0
    assert results.attempted > 0


def test_every_public_name_has_a_docstring() -> None:
    values = {name: getattr(konverge.informers, name) for name in konverge.informers.__all__}
    bare = [name for name, value in values.items() if isinstance(value, type) and not value.__doc__]
    assert bare == []
