"""Which event loop a process runs on."""

import sys
from types import ModuleType
from typing import Any

import pytest

from konverge.daemon.loops import chosen_loop
from konverge.daemon.settings import Settings
from konverge.errors import ConfigError
from konverge.runtime import ElectionSettings, ShardingSettings

ELECTS: dict[str, Any] = {"election": ElectionSettings(enabled=True)}
SHARES: dict[str, Any] = {"sharding": ShardingSettings(mode="hash")}


@pytest.mark.parametrize(
    ("choice", "installed", "other", "expected"),
    [
        ("auto", True, {}, "uvloop"),
        ("auto", False, {}, "asyncio"),
        ("auto", True, ELECTS, "asyncio"),
        ("auto", True, SHARES, "asyncio"),
        ("asyncio", True, {}, "asyncio"),
        ("uvloop", True, {}, "uvloop"),
        ("uvloop", False, {}, "konverge[speed]"),
        ("uvloop", True, ELECTS, "event_loop=auto"),
        ("uvloop", True, SHARES, "event_loop=auto"),
    ],
)
def test_uvloop_runs_a_process_that_has_it_and_neither_elects_nor_shards(
    monkeypatch: pytest.MonkeyPatch, choice: Any, installed: bool, other: dict[str, Any], expected: str
) -> None:
    module = ModuleType("uvloop")  # the extra may be absent where this test runs
    module.new_event_loop = lambda: None  # type: ignore[attr-defined]  # a module has any attribute
    monkeypatch.setitem(sys.modules, "uvloop", module if installed else None)
    settings = Settings(event_loop=choice, **other)
    if expected in ("asyncio", "uvloop"):
        loop = chosen_loop(settings)
        assert (loop.name, loop.factory) == (expected, module.new_event_loop if expected == "uvloop" else None)
    else:
        with pytest.raises(ConfigError, match="event_loop=uvloop") as error:
            chosen_loop(settings)
        assert expected in str(error.value)
