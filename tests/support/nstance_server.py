"""Nstance servers as a process of their own, over TLS on the loopback: `python tests/support/nstance_server.py SHARD ...`.

It writes a line of JSON with its addresses, its authority and a nonce, then a line for each call that is held. It executes the commands
that it reads: `{"do": "hold", "method": ..., "fault": ...}`, `{"do": "instances"}`, `{"do": "drain", "provider_id": ..., "seconds": ...}`
and `{"do": "drains"}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from konverge.clock import wall_clock
from konverge_testing.nstance import CallFault, GroupSpec, NstanceWorld


@dataclass(frozen=True, slots=True)
class DrainState:
    """A drain in its server's view."""

    status: str
    """Of the instance."""
    acknowledged: int
    """How often the operator has acknowledged it before the server deleted the instance by itself."""


class NstanceProcess:
    """The process, for a test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}

    @classmethod
    @asynccontextmanager
    async def run(cls, *shards: str) -> AsyncIterator[NstanceProcess]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, *shards),
            cwd=Path(__file__).parents[2],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        made = cls(process)
        try:
            made.facts = await made.next("addresses")
            yield made
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def next(self, word: str, *, timeout: float = 60.0) -> dict[str, Any]:
        """Return the next line that has this word as a key; others are kept."""
        async with asyncio.timeout(timeout):
            while True:
                for line in self._waiting:
                    if word in line:
                        self._waiting.remove(line)
                        return line
                assert self._process.stdout is not None
                read = await self._process.stdout.readline()
                assert read, "the servers have ended"
                self._waiting.append(json.loads(read))

    async def hold(self, method: str, fault: CallFault) -> None:
        """Let the next call of a method hang, before or after the server acted; `next("held")` waits for it."""
        await self._send({"do": "hold", "method": method, "fault": fault.value})
        await self.next("armed")

    async def instances(self) -> dict[str, str]:
        """Return the status of each instance that was created on demand, by `shard/id`."""
        await self._send({"do": "instances"})
        found: dict[str, str] = (await self.next("instances"))["instances"]
        return found

    async def drain(self, provider_id: str, *, seconds: float) -> None:
        """Begin the drain of an instance, which is deleted after these seconds."""
        await self._send({"do": "drain", "provider_id": provider_id, "seconds": seconds})
        await self.next("draining")

    async def drains(self) -> dict[str, DrainState]:
        """Return the drains that have begun, by the provider's id."""
        await self._send({"do": "drains"})
        return {name: DrainState(**found) for name, found in (await self.next("drains"))["drains"].items()}

    async def _send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()


# --- the process itself ------------------------------------------------------------------------------------------------------


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _begin_drain(world: NstanceWorld, provider_id: str, seconds: float) -> None:
    for shard in world.shards.values():
        for one in shard.state.fleet.instances.values():
            if one.provider_id == provider_id:
                shard.state.fleet.pace.drain_timeouts[one.group] = seconds
                shard.state.fleet.drain(one, "spot-interruption")


def _drains(world: NstanceWorld) -> dict[str, dict[str, Any]]:
    now, time = wall_clock(), asyncio.get_running_loop().time()
    found = {}
    for shard in world.shards.values():
        for one in shard.state.fleet.instances.values():
            if one.last_drain is not None:
                deleted = time + (one.last_drain.delete_at - now).total_seconds()
                told = [
                    call.time
                    for call in shard.calls
                    if call.method == "AcknowledgeDrained" and call.request.instance_id == one.id  # type: ignore[attr-defined]  # the message of this method
                ]
                found[one.provider_id] = {"status": one.status, "acknowledged": sum(when < deleted for when in told)}
    return found


async def _serve(shards: list[str]) -> None:
    world = NstanceWorld(random=Random(1))
    held: list[tuple[str, CallFault]] = []

    def choose(method: str) -> CallFault | None:
        if held and held[0][0] == method:
            _say(held=method)
            return held.pop()[1]
        return None

    for name in shards:
        shard = world.add_shard(name)
        shard.groups.static["workers"] = GroupSpec("std", 0, subnet_pool="private")
        shard.state.fleet.pace.boot = shard.state.fleet.pace.delete = 0.5
        shard.faults.chooser = choose
    async with world.serve():
        addresses = {
            name: {"operator_addr": shard.address.operator, "registration_addr": shard.address.registration}
            for name, shard in world.shards.items()
        }
        _say(addresses=addresses, ca=world.authority.certificate.decode(), nonce=world.nonce())
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            command = json.loads(line)
            if command["do"] == "hold":
                held[:] = [(command["method"], CallFault(command["fault"]))]
                _say(armed=command["method"])
            elif command["do"] == "drain":
                _begin_drain(world, command["provider_id"], command["seconds"])
                _say(draining=command["provider_id"])
            elif command["do"] == "drains":
                _say(drains=_drains(world))
            else:
                found = {
                    f"{name}/{one.id}": one.status
                    for name, shard in world.shards.items()
                    for one in shard.state.fleet.instances.values()
                    if not one.managed
                }
                _say(instances=found)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1:]))
