"""Recordings of the widgets' operator, taken in the lab."""

from pathlib import Path
from typing import Any

import konverge as kv
from konverge.recording import Recording, read_recording, record
from konverge_testing import Lab


class Taped:
    """The file of a recording, and the build of the recorded operator."""

    def __init__(self, file: Path, *controllers: kv.Controller[Any]) -> None:
        self.file = file
        self._controllers = controllers

    def build(self, manager: kv.Manager) -> None:
        record(manager, str(self.file))
        for controller in self._controllers:
            manager.add(controller)

    def read(self) -> Recording:
        return read_recording(self.file)


async def taped(
    lab: Lab, file: Path, *controllers: kv.Controller[Any], settings: kv.ManagerSettings | None = None
) -> Taped:
    """Start the recorded operator of these controllers."""
    tape = Taped(file, *controllers)
    await lab.start(tape.build, name="taped", settings=settings)
    return tape
