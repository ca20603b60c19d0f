"""Random moves of a tenant beside a victim: no sequence of allowed requests reaches another tenant.

More examples: `KONVERGE_TRUST_EXAMPLES=500 .venv/bin/pytest tests/scenarios/trust`.
"""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from typing import Final

from hypothesis import HealthCheck, Phase, given, note, settings
from trust.attack import Scene, scene
from trust.moves import Move, make_move, moves, names_of_victim

from konverge_testing.loop import VirtualTimeLoop

EXAMPLES: Final = int(os.environ.get("KONVERGE_TRUST_EXAMPLES", "8"))
MOVES: Final = 20
HELD: Final = 0.1
"""Seconds of CPU for which one step of the daemon may hold the event loop."""


class Theatre:
    """A stage for many examples, replaced as soon as an example has changed it permanently."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self._scene: AbstractAsyncContextManager[Scene] | None = None
        self._here: Scene | None = None

    def play(self, drawn: list[Move]) -> tuple[list[str], float, str]:
        """Send the moves; return the findings, the longest step of the daemon, and its callback."""
        return self._runner.run(self._play(drawn))

    async def _play(self, drawn: list[Move]) -> tuple[list[str], float, str]:
        if self._here is None:
            self._scene = scene()
            self._here = await self._scene.__aenter__()
        here = self._here
        here.number += 1
        here.stage.meter.reset()
        names = await names_of_victim(here)
        found = [words for move in drawn if (words := await make_move(here, move, names))]
        await here.rest(300)
        problems = here.stage.lab.findings
        problems.collect()
        found += [*here.judge.findings(), *here.stage.lab.fails_for_ever(), *map(str, problems.problems)]
        longest, where = here.stage.meter.longest, here.stage.meter.where
        await here.clean()
        if found or here.judge.findings():
            await self._leave()
        else:
            here.judge.begin()
        return found, longest, where

    async def _leave(self) -> None:
        assert self._scene is not None
        assert self._here is not None
        self._here.stage.lab.dismiss()
        await self._scene.__aexit__(None, None, None)
        self._scene = self._here = None

    def close(self) -> None:
        """End the stage."""
        if self._here is not None:
            self._runner.run(self._leave())
        self._runner.close()


def test_random_moves_of_a_tenant_reach_no_other_tenant() -> None:
    theatre = Theatre()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate, Phase.shrink] if EXAMPLES > 8 else [Phase.generate],
        deadline=None,
        derandomize=EXAMPLES == 8,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(moves(MOVES))
    def check(drawn: list[Move]) -> None:
        found, longest, where = theatre.play(drawn)
        for _ in range(2):
            if longest > HELD:  # another program may cause a single long step: a step has to be long each time
                _, again, where = theatre.play(drawn)
                longest = min(longest, again)
        for move in drawn:
            note(f"{move}")
        assert found == []
        assert longest <= HELD, where

    try:
        check()
    finally:
        theatre.close()
