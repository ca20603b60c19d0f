"""Informers yield to the event loop while they decode, compare and deliver many objects."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from konverge.informers import Selection


async def turns_during(work: Awaitable[Any]) -> int:
    """Count the steps of another task until the work is done."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(other())
    await work
    watching.cancel()
    return turns


async def test_decoding_yields_to_the_loop_when_the_slice_is_spent(
    api: Any, make_set: Any, selection: Selection
) -> None:
    loop: Any = asyncio.get_running_loop()

    def slow(data: dict[str, Any]) -> dict[str, Any]:
        loop.advance(0.001)
        return data

    for streaming in (True, False):
        async with make_set(slice_objects=4, watch_list=streaming) as informers:
            informer = informers.acquire(Selection(selection.kind, transform=slow))
            bodies = [api.body(f"n{number}", 1) for number in range(200)]
            if streaming:
                stream = (await api.next_watch()).accept()
                stream.send(*(api.event("ADDED", body) for body in bodies), api.bookmark(9, ends=True))
            else:
                (await api.next_list()).answer(*bodies, version="9")
            assert await turns_during(informer.wait_synced()) >= 14, (
                "200 ms of work, in slices of 5 ms and eight objects"
            )


async def test_delivering_the_difference_of_a_relist_yields_to_the_loop(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set(slice=0.0) as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(*(api.body(f"n{number}", 1) for number in range(10_000)))
        assert len(informer.store) == 10_000
        stream.send(api.bookmark(101), api.error(410, "Expired", "too old"))
        request = await api.next_watch()
        request.accept().send(api.bookmark(102, ends=True))

        async def told() -> None:
            while informer.statistics().restarts == {} or len(informer.store):
                await asyncio.sleep(0)
            stream_goes_on = api.modified("new", 103)
            request.send(stream_goes_on)
            while informer.store.version != "103":
                await asyncio.sleep(0)

        assert await turns_during(told()) >= 19, "10,000 deletions, 512 in a turn, before the next event"


async def test_informers_with_events_at_once_share_one_slice_of_an_iteration(
    api: Any, make_set: Any, selection: Selection
) -> None:
    loop: Any = asyncio.get_running_loop()
    delivered, longest = 0, 0.0

    def handle(_: Any) -> None:
        nonlocal delivered
        loop.advance(0.001)
        delivered += 1

    async with make_set() as informers:
        streams = []
        for number in range(50):
            informer = informers.acquire(Selection(selection.kind, labels=f"number={number}"))
            streams.append(await api.synced_stream())
            await informer.wait_synced()
            await informer.add_handler("slow", handle).synced()
        for stream in streams:
            stream.send(api.event("ADDED", api.body("n", 200)))
        last = loop.time()
        while delivered < 50:
            await asyncio.sleep(0)
            longest, last = max(longest, loop.time() - last), loop.time()
    assert longest <= 0.006 + 1e-9, "5 ms, and the handler that ran at their end"
