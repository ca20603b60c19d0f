"""The parts that the contestants in Python share: their input, their output, and the apply that they all send.

`peers/protocol.py` describes the protocol. No library under test uses this module: konverge and kopf bring their own client, and kopf's
handlers send the apply by the session of this module, since kopf does not expose its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from konverge.clock import cpu_time, monotonic, rfc3339, wall_clock

GROUP, VERSION, KIND, PLURAL = "bench.konverge.dev", "v1", "Item", "items"
MANAGER = "peer"
CHILDREN = 20
PAUSE = 0.01

Condition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """The input of a contestant, from the harness."""

    namespace: str
    workers: int
    owners: bool
    events: bool
    mount: Path
    kinds: int = 1
    watches: int = 1
    loop: str = "asyncio"
    own_writes: bool = True

    @classmethod
    def from_environment(cls) -> Told:
        env = os.environ
        return cls(
            namespace=env["PEER_NAMESPACE"],
            workers=int(env["PEER_WORKERS"]),
            owners=env.get("PEER_MODE") == "owners",
            events=env.get("PEER_EVENTS") == "1",
            mount=Path(env["PEER_MOUNT"]),
            kinds=int(env.get("PEER_KINDS", "1")),
            watches=int(env.get("PEER_WATCHES", "1")),
            loop=env.get("PEER_LOOP", "asyncio"),
            own_writes=env.get("PEER_OWN_WRITES", "1") == "1",
        )

    @property
    def items(self) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{PLURAL}"

    @property
    def maps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def session(self) -> aiohttp.ClientSession:
        """A session as the ServiceAccount of the mount, over as many connections as there are requests at once."""
        server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(self.mount / "ca.crt")), limit=0)
        headers = {"Authorization": f"Bearer {(self.mount / 'token').read_text()}", "Accept": "application/json"}
        return aiohttp.ClientSession(
            server, connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**20
        )


# --- the work -----------------------------------------------------------------------------------------------------------------


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    generation: int = 0
    resource_version: str = ""
    annotations: dict[str, str] = {}


class Spec(msgspec.Struct):
    revision: int = 0


class Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[Condition] = []


class Item(msgspec.Struct):
    """The fields of an object that the work needs."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


def due(item: Item) -> bytes | None:
    """The body of the apply that brings the status up to date; None if it is."""
    generation, message = item.metadata.generation, f"revision {item.spec.revision} is in place"
    last = next((entry for entry in item.status.conditions if entry.get("type") == "Stalled"), {})
    is_false = last.get("status") == "False"
    in_step = is_false and last.get("observedGeneration") == generation and last.get("message") == message
    if in_step and item.status.observed_generation == generation:
        return None
    condition = {
        "type": "Stalled",
        "status": "False",
        "reason": "InStep",
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": last["lastTransitionTime"] if is_false else rfc3339(wall_clock()),
    }
    intent = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": item.metadata.name},
        "status": {"observedGeneration": generation, "conditions": [condition]},
    }
    return msgspec.json.encode(intent)


async def apply(session: aiohttp.ClientSession, path: str, body: bytes) -> None:
    """Send a forced server-side apply; raises ClientResponseError if it is refused."""
    headers = {"Content-Type": "application/apply-patch+yaml"}
    query = f"{path}?fieldManager={MANAGER}&force=true"
    async with session.patch(query, data=body, headers=headers, raise_for_status=True) as answer:
        await answer.read()


# --- the protocol -------------------------------------------------------------------------------------------------------------


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def ready(settings: dict[str, Any], *packages: str, synced: bool = True) -> None:
    """Report that the caches are synced; `synced` is False if a library has no such moment and has merely begun."""
    versions = {"python": sys.version.split()[0], **{name: version(name) for name in packages}}
    say(peer="ready", synced=synced, stalls=True, versions=versions, settings=settings)


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of a loop: "asyncio" or "uvloop"."""
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


class Turns:
    """The most CPU that one turn of the loop takes: from one wait for sockets and timers to the next. uvloop has no place to measure it.

    It measures once it has begun, since the clock of a thread is a system call and a turn has two: 4 % of a contestant's CPU.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest: float | None = None
        self._began = 0.0
        self._selector = getattr(loop, "_selector", None)

    def begin(self) -> None:
        if self._selector is None:
            return
        if self.longest is None:
            self._wait, self._selector.select = self._selector.select, self._select
        self.longest, self._began = 0.0, time.thread_time()

    def _select(self, timeout: float | None = None) -> Any:
        assert self.longest is not None
        self.longest = max(self.longest, (time.thread_time() - self._began) * 1000)
        ready = self._wait(timeout)
        self._began = time.thread_time()
        return ready


class Stalls:
    """The longest delay of the loop, and the most CPU in about 10 ms and in one turn, in milliseconds, while measuring is on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.longest = self.work = 0.0
        self.turns = Turns(loop)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self.longest = self.work = 0.0
        self.turns.begin()
        self._task = self._task or asyncio.ensure_future(self._look())

    def end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _look(self) -> None:
        last, used = monotonic(), cpu_time()
        while True:
            await asyncio.sleep(PAUSE)
            now, spent = monotonic(), cpu_time()
            self.longest = max(self.longest, (now - last - PAUSE) * 1000)
            self.work = max(self.work, (spent - used) * 1000)
            last, used = now, spent


@contextlib.asynccontextmanager
async def answering(errors: Callable[[], float]) -> AsyncIterator[asyncio.Event]:
    """Respond to the harness' signals; SIGTERM sets the event."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    stalls = Stalls(loop)

    def stats() -> None:
        stalls.end()
        say(peer="stats", errors=errors(), stall_ms=stalls.longest, work_ms=stalls.work, turn_ms=stalls.turns.longest)

    if os.environ.get("PEER_STALLS") == "1":
        stalls.begin()
    loop.add_signal_handler(signal.SIGUSR2, stalls.begin)
    loop.add_signal_handler(signal.SIGUSR1, stats)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        yield stop
    finally:
        stalls.end()
