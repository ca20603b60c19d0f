"""A recorded operator as a process, and as it is declared."""

import asyncio
import os
from pathlib import Path

import pytest
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.daemon.engine import Operator, operate
from konverge.daemon.settings import Settings
from konverge.errors import ConfigError, UsageError
from konverge.recording import read_recording, record
from konverge_testing import Lab


async def labels(found: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(CONFIG_MAP).selecting("watched").reconciled_by(By(labels)))


def settings(record: str) -> Settings:
    return Settings(metrics="0", health="0", debug="0", record=record)


async def test_the_setting_records_an_operator_until_it_stops(lab: Lab, tmp_path: Path) -> None:
    await lab.create(CONFIG_MAP.new("one", labels={"watched": "yes"}))
    stop = asyncio.Event()
    operator = Operator(name="labels", build=build, settings=settings(str(tmp_path / "tape-{pid}")))
    running = asyncio.create_task(operate(operator, stop, config=lab.server.config()))
    await asyncio.sleep(5)
    stop.set()
    await running
    recording = read_recording(tmp_path / f"tape-{os.getpid()}")
    assert recording.header.operator == "labels"
    assert [(each.key.name, each.outcome, each.reasons) for each in recording.reconciles] == [
        ("one", "Done", ("initial list",))
    ]


async def test_a_file_that_cannot_be_written_ends_the_start(lab: Lab, tmp_path: Path) -> None:
    operator = Operator(name="labels", build=build, settings=settings(str(tmp_path / "absent" / "tape")))
    with pytest.raises(ConfigError, match="cannot record to"):
        await operate(operator, asyncio.Event(), config=lab.server.config())


def test_a_manager_is_recorded_once(tmp_path: Path) -> None:
    manager = kv.Manager("labels")
    record(manager, str(tmp_path / "tape"))
    with pytest.raises(UsageError, match="recorded already"):
        record(manager, str(tmp_path / "other"))
    assert list(tmp_path.iterdir()) == [], "nothing is written before the start"
