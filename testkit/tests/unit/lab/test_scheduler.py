"""The seeded scheduler of the loop: another seed gives another order of ready tasks, and the same seed the same order."""

import asyncio
from random import Random

import pytest

from konverge_testing.loop import VirtualTimeLoop


def order(seed: int | None, tasks: int = 6) -> list[tuple[int, int]]:
    """Run tasks that are all ready at once, three steps each; returns the task of each step, in order."""
    steps: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        for step in range(3):
            steps.append((number, step))
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(tasks)))

    loop = VirtualTimeLoop(None if seed is None else Random(seed))
    try:
        loop.run_until_complete(all_of_them())
    finally:
        loop.close()
    return steps


def test_without_a_seed_tasks_step_in_order_of_readiness() -> None:
    assert order(None) == [(number, step) for step in range(3) for number in range(6)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_draws_an_order_and_always_the_same(seed: int) -> None:
    assert order(seed) == order(seed)
    assert order(seed) != order(None)


def test_other_seeds_draw_other_orders() -> None:
    assert len({tuple(order(seed)) for seed in range(1, 9)}) == 8


def test_a_task_never_overtakes_itself() -> None:
    for seed in range(1, 20):
        for number in range(6):
            assert [step for who, step in order(seed) if who == number] == [0, 1, 2]


def test_callbacks_other_than_tasks_keep_their_order() -> None:
    called: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_soon(called.append, number)
        await asyncio.sleep(0)

    for seed in range(1, 5):
        called.clear()
        loop = VirtualTimeLoop(Random(seed))
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()
        assert called == list(range(20))


async def _talk() -> list[bytes]:
    """Echo over real connections, several at once; returns the replies."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()
        await writer.wait_closed()

    async def ask(port: int, number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(5):
            writer.write(b"%d\n" % number)
            reply = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return reply

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.gather(*(ask(port, number) for number in range(6)))


@pytest.mark.parametrize("seed", range(1, 21))
def test_connections_over_real_sockets_work_in_every_order_of_tasks(seed: int) -> None:
    loop, unhandled = VirtualTimeLoop(Random(seed)), list[dict[str, object]]()
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    try:
        replies = loop.run_until_complete(_talk())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    assert replies == [b"%d\n" % number for number in range(6)]
    assert unhandled == []
