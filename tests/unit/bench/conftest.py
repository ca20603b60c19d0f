"""The runner of the benchmarks, which judges rows, and contestants in Python without an installation."""

import importlib.util
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest
from peers import building

RUN = Path(__file__).parents[3] / "tools" / "bench" / "run.py"


class Runner(Protocol):
    def check(self, rows: object) -> list[dict[str, Any]]: ...
    def discover(self, folder: Path) -> dict[str, Path]: ...
    def by_default(self, benches: dict[str, Path], *, quick: bool) -> list[str]: ...


@pytest.fixture
def runner() -> Runner:
    spec = importlib.util.spec_from_file_location("bench_runner", RUN)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Runner = module
    return made


@pytest.fixture(autouse=True)
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the contestants in Python run by the interpreter of the tests: their own environment takes a minute."""
    monkeypatch.setattr(building, "interpreter", lambda *_: Path(sys.executable))
