"""One run from its control plane to its record."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from peers import phases, scrape
from peers.bystander import Bystander
from peers.cluster import Cluster, cluster
from peers.objects import item_name
from peers.observer import Items, Maps, observing
from peers.phases import Figures, Foreign
from peers.plan import Run, Session
from peers.protocol import environment
from peers.running import Died, Running, running
from peers.statistics_of import foreign_share

BENCH = Path(__file__).resolve().parent.parent


async def perform(run: Run, programs: Mapping[str, Path]) -> dict[str, Any]:
    """Carry out one run; returns its record. A failure is in the record as text, since it is a result too."""
    record: dict[str, Any] = {"session": run.session.name, "contestant": run.contestant.name, "run": run.number + 1}
    with tempfile.TemporaryDirectory(prefix="konverge-peers-") as scratch:
        program = programs["standin"] if run.session.stand_in else None
        async with (
            cluster(warm=run.session.warm, program=program) as target,
            _port(target, run.session) as (port, proxies),
        ):
            record["server"] = await target.facts()
            driver = _Driver(run, programs, target, Path(scratch), port, proxies)
            try:
                await driver.drive(record)
            except (Died, TimeoutError, OSError, aiohttp.ClientError) as error:
                record["failed"] = f"{type(error).__name__}: {error}"
            if fallen := target.server.fallen():
                record["failed"] = f"the server fell: {fallen}"
    return record


@contextlib.asynccontextmanager
async def _port(target: Cluster, session: Session) -> AsyncIterator[tuple[int, list[int]]]:
    """The port that a contestant connects to, and the processes between it and the server."""
    if not session.delay_ms:
        yield target.server.port, []
        return
    async with _beside("peers.delay", str(target.server.port), str(session.delay_ms)) as process:
        assert process.stdout is not None
        yield int(await process.stdout.readline()), [process.pid]


@contextlib.asynccontextmanager
async def _beside(*module: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program of the harness that runs beside; it ends when its standard input does."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", *module)
    process = await asyncio.create_subprocess_exec(*command, cwd=BENCH, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


class _Driver:
    """The parts of one run, in their order."""

    def __init__(
        self, run: Run, programs: Mapping[str, Path], target: Cluster, scratch: Path, port: int, proxies: list[int]
    ) -> None:
        self.run, self.programs, self.made, self.scratch, self.port = run, programs, target, scratch, port
        self.proxies = proxies
        self.items, self.maps = Items(), Maps()
        self.peer: Running | None = None
        self.bystander: Bystander | None = None
        self.account: tuple[Path, Path] | None = None

    async def drive(self, record: dict[str, Any]) -> None:
        session = self.run.session
        record["object_bytes"] = await phases.fill(self.made, session)
        self.account = await self.made.account(self.scratch, self.port)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(observing(self.made.session, phases.PATH, self.items))
            if session.owners:
                await stack.enter_async_context(observing(self.made.session, phases.MAPS, self.maps))
            if session.rates:
                self.bystander = Bystander(await stack.enter_async_context(_beside("peers.bystander")))
            foreign = Foreign(self._pids)
            parts: dict[str, Figures] = {}
            record["phases"] = parts
            try:
                await self._first_life(record, parts)
                if session.restart and self.run.contestant.watches:
                    await self._second_life(parts)
            finally:
                busy, ours, elapsed = foreign.so_far()
                record["foreign"] = foreign_share(busy, ours, elapsed, os.cpu_count() or 1)
                record["elapsed"] = elapsed
                record["observer_reconnects"] = self.items.ends + self.maps.ends
                record["ended_watches"] = await self.made.ended_watches()

    def _pids(self) -> list[int]:
        peer = self.peer.pids if self.peer is not None else []
        beside = [self.bystander.process.pid] if self.bystander is not None else []
        return [os.getpid(), *self.made.server.pids(), *self.proxies, *beside, *peer]

    @contextlib.asynccontextmanager
    async def _life(self) -> AsyncIterator[Running]:
        assert self.account is not None
        session, contestant = self.run.session, self.run.contestant
        told = environment(
            os.environ,
            kubeconfig=self.account[0],
            mount=self.account[1],
            address=(self.made.server.host, self.port),
            namespace="bench",
            workers=session.workers,
            owners=session.owners,
            extra=contestant.extra,
        )
        command = contestant.command(self.programs)
        async with running(command, told, BENCH, self.scratch / "log") as self.peer:
            yield self.peer
        self.peer = None

    async def _first_life(self, record: dict[str, Any], parts: dict[str, Figures]) -> None:
        session, items, maps = self.run.session, self.items, self.maps
        items.wait_for({item_name(number): 1 for number in range(session.count)})
        if session.owners:
            maps.wait_for(dict.fromkeys(phases.children(session), 0))

        async def converged(peer: Running) -> Figures:
            figures = await phases.cold(peer, items, session)
            if session.owners:
                await maps.all_done(session.patience)
            return figures

        before = await self.made.counted()
        async with self._life() as peer:
            parts["cold"] = await self._counted(lambda: converged(peer), before)
            assert peer.said is not None
            record["versions"], record["settings"] = dict(peer.said.versions), dict(peer.said.settings)
            if self.run.contestant.watches:
                await self._loads(peer, parts)
            record["errors_said"] = (await peer.stats()).errors

    async def _loads(self, peer: Running, parts: dict[str, Figures]) -> None:
        """The phases after the first convergence."""
        session, target, items, bystander = self.run.session, self.made, self.items, self.bystander
        if session.idle_seconds:
            parts["idle"] = await self._counted(lambda: phases.idle(peer, session))
        if session.storm:
            parts["storm"] = await self._counted(lambda: phases.storm(target, peer, items, session), ours=session.count)
        for turn, rate in enumerate(session.rates, start=1):
            assert bystander is not None
            revision = 1_000_000 * turn
            parts[f"open_{turn}"] = await self._counted(
                lambda rate=rate, revision=revision: phases.open_loop(
                    target, peer, items, session, bystander, rate, revision
                ),  # type: ignore[misc]  # mypy infers no lambda with defaults
            )
            parts[f"open_{turn}"]["rate"] = rate
        if session.owners:
            figures = await self._counted(
                lambda: phases.repairs(target, peer, self.maps, session), ours=session.repairs
            )
            figures["writes_per_repair"] = figures["writes"] / session.repairs
            parts["repairs"] = figures

    async def _second_life(self, parts: dict[str, Figures]) -> None:
        before = await self.made.counted()
        async with self._life() as peer:
            parts["restart"] = await self._counted(lambda: phases.restarted(peer, self.run.session), before)

    async def _counted(self, part: Callable[[], Awaitable[Figures]], before: Any = None, *, ours: int = 0) -> Figures:
        """Carry out a part, and add the server's counts for it, without the harness' own writes (`ours`, or the part's "changes")."""
        before = await self.made.counted() if before is None else before
        figures = await part()
        after = await self.made.counted()
        figures["writes"] = scrape.writes(before, after) - figures.get("changes", ours)
        figures["reads"] = scrape.reads(before, after)
        figures["errors"] = scrape.errors(before, after)
        figures["conflicts"] = scrape.errors(before, after, code="409")
        return figures
