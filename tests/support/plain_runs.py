"""A scenario of the lab as an ordinary test runs it: once, without faults, with the lab's own checks at its end."""

import asyncio

from konverge_testing.lab.environments import memory_lab
from konverge_testing.lab.runs import Scenario
from konverge_testing.loop import VirtualTimeLoop


def played(scenario: Scenario) -> None:
    """Play a scenario once, as the fixture does."""

    async def main() -> None:
        async with memory_lab() as lab:
            await scenario(lab)

    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()
