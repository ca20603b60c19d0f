"""Kills an operator at each of its writes and compares the end state with an undisturbed run.

A `Story` is a list of acts of a user on the cluster; after each act the operator has to reach the undisturbed run's state after the same
act. `Crashes` plays it once undisturbed, and then once for each write and moment: a proxy between operator and API server ends the process
with SIGKILL at that write, a new process takes over, and the story continues. Runs are in namespaces of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from forkserver import ForkServer
from namespace_recorder import NamespaceRecorder, Picture, difference
from operators import Operator

from konverge.kinds import Kind, kind
from konverge_testing import ControlPlane, FaultProxy, Lab
from konverge_testing.proxy import Moment, is_write

Act: TypeAlias = Callable[[Lab], Awaitable[None]]
"""An act of a user; returns when it has had its effect."""

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
_QUIET = 0.5
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Story:
    """Acts, the kinds whose objects are compared and counted, and how the operator is run (arguments of `konverge run`)."""

    acts: Sequence[Act]
    kinds: Sequence[Kind[Any]]
    arguments: Sequence[str] = ()


@dataclass(slots=True)
class Run:
    """The result of one playing of a story."""

    pictures: list[Picture] = field(default_factory=list)
    created: Counter[str] = field(default_factory=Counter)
    writes: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    """How often an Event of each reason was recorded."""
    struck: str = ""
    """The write at which the operator was killed, "" where the story has fewer writes."""
    starts: int = 0


class Crashes:
    """Plays a story on a control plane; `token` is of a ServiceAccount with exactly the operator's rights.

    `lab` creates a lab in a namespace, `prefix` begins the names of the namespaces, `directory` takes logs and kubeconfigs. `patience`
    limits the wait for a wanted state.
    """

    def __init__(
        self,
        story: Story,
        *,
        plane: ControlPlane,
        lab: Callable[[str], Lab],
        token: str,
        directory: Path,
        prefix: str,
        forkserver: ForkServer,
        at_once: int = 3,
        patience: float = 60.0,
    ) -> None:
        self._story = story
        self._plane = plane
        self._lab = lab
        self._token = token
        self._directory = directory
        self._prefix = prefix
        self._forkserver = forkserver
        self._slots = asyncio.Semaphore(at_once)
        self._patience = patience

    async def undisturbed(self) -> Run:
        """Play the story without any fault."""
        return await self._play("reference", None, None)

    async def killed(self, number: int, moment: Moment, reference: Run) -> Run:
        """Play the story with a kill at a write. Raises AssertionError where an end state differs from the reference's."""
        async with self._slots:
            return await self._play(f"{moment}-{number}", (number, moment), reference)

    async def _play(self, name: str, fault: tuple[int, Moment] | None, reference: Run | None) -> Run:
        namespace = f"{self._prefix}-{name}"
        await self._plane.create_namespace(namespace)
        lab = self._lab(namespace)
        try:
            async with (
                FaultProxy(self._plane.url, self._plane.ca_file) as proxy,
                NamespaceRecorder(lab.client, namespace, self._story.kinds) as recorder,
            ):
                return await self._perform(lab, proxy, recorder, fault, reference)
        finally:
            await asyncio.to_thread(self._plane.blocking.api.delete_namespace, namespace)

    async def _perform(
        self,
        lab: Lab,
        proxy: FaultProxy,
        recorder: NamespaceRecorder,
        fault: tuple[int, Moment] | None,
        reference: Run | None,
    ) -> Run:
        folder = self._directory / lab.namespace
        folder.mkdir()
        kubeconfig = proxy.kubeconfig(folder / "kubeconfig", self._token, namespace=lab.namespace)
        arguments = (
            "--kubeconfig",
            str(kubeconfig),
            "--namespace",
            lab.namespace,
            "--metrics",
            "0",
            *("--health", "127.0.0.1:0", "--debug", "0"),
        )
        operator = Operator((*self._story.arguments, *arguments), folder / "log", forkserver=self._forkserver)
        run = Run()
        struck = asyncio.Event() if fault is None else proxy.at_write(*fault, operator.kill)
        try:
            async with operator.running_for(), _revived(operator, struck) as revived:
                for number, act in enumerate(self._story.acts):
                    await act(lab)
                    wanted = None if reference is None else reference.pictures[number]
                    run.pictures.append(await self._converged(recorder, proxy, wanted))
                await _until(lambda: not proxy.under_way(is_write))
                if struck.is_set():
                    await revived.wait()  # the killed write may have stored the wanted state already
                await operator.ready()
                assert await operator.stop() == 0
            # A ready operator has read everything, and an operator that drained has finished its work: no write may have followed.
            await _same(run.pictures[-1], recorder)
        except Exception as error:
            error.add_note(
                f"fault: {fault}; the operator's log:\n{operator.story()}\nits writes:\n" + "\n".join(proxy.writes)
            )
            raise
        run.created, run.writes, run.starts = recorder.created, list(proxy.writes), operator.starts
        run.events = await _events(lab)
        run.struck = run.writes[fault[0] - 1] if fault is not None and struck.is_set() else ""
        return run

    async def _converged(self, recorder: NamespaceRecorder, proxy: FaultProxy, wanted: Picture | None) -> Picture:
        """Wait until the state is as wanted; in the undisturbed run, until nothing was written for a while."""
        if wanted is None:
            return await _at_rest(recorder, proxy)
        found = await recorder.picture()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while found != wanted:
                    await asyncio.sleep(_POLL)
                    found = await recorder.picture()
        if found != wanted:
            raise AssertionError("it never became as in the undisturbed run:\n" + "\n".join(difference(wanted, found)))
        return found


@contextlib.asynccontextmanager
async def _revived(operator: Operator, struck: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Start the operator again after the kill, as a Deployment would; then the event is set."""
    done = asyncio.Event()

    async def revive() -> None:
        await struck.wait()
        assert await operator.ended() == -9
        await operator.start()
        done.set()

    task = asyncio.create_task(revive())
    try:
        yield done
    finally:
        if not struck.is_set():
            task.cancel()
        ended = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(ended, Exception):
        raise ended


async def _until(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not test():
            await asyncio.sleep(_POLL)


async def _at_rest(recorder: NamespaceRecorder, proxy: FaultProxy) -> Picture:
    loop = asyncio.get_running_loop()
    since, writes, picture = loop.time(), -1, await recorder.picture()
    while loop.time() - since < _QUIET:
        now = await recorder.picture()
        if len(proxy.writes) != writes or now != picture:
            since, writes, picture = loop.time(), len(proxy.writes), now
        await asyncio.sleep(_POLL)
    return picture


async def _events(lab: Lab) -> Counter[str]:
    found: Counter[str] = Counter()
    for event in (await lab.client.list(EVENT, lab.namespace)).items:
        found[event.get("reason")] += event.get("series", "count", default=1)
    return found


async def _same(wanted: Picture, recorder: NamespaceRecorder) -> None:
    found = await recorder.picture()
    assert found == wanted, "after its end:\n" + "\n".join(difference(wanted, found))
