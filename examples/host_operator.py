"""Host names in the zone file of a DNS server: an effect outside Kubernetes, and its stand-in in a plan (docs/guide/plan.md)."""

import asyncio
from pathlib import Path
from typing import Protocol

import konverge as kv


class HostSpec(kv.Model):
    address: str


@kv.resource("example.com/v1", conditions=("Ready",))
class Host(kv.CustomResource[HostSpec, kv.Status]):
    """A name with an address."""


class Zone(Protocol):
    """Publishes addresses."""

    async def publish(self, name: str, address: str) -> None: ...


class ZoneFile:
    """The zone file of a DNS server on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def publish(self, name: str, address: str) -> None:
        await asyncio.to_thread(self._write, f"{name} IN A {address}\n")

    def _write(self, line: str) -> None:
        if not self._path.exists() or line not in self._path.read_text():
            with self._path.open("a") as file:
                file.write(line)


class NoZone:
    """The zone of a plan."""

    async def publish(self, name: str, address: str) -> None:
        """Publish nothing."""


class HostReconciler:
    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    async def reconcile(self, host: Host, ctx: kv.Context[Host]) -> kv.Outcome:
        await self._zone.publish(host.name, host.spec.address)
        ctx.status.set_condition("Ready", True, "Published", f"{host.name} is {host.spec.address}")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Host)
        .calls("the DNS server", in_plan=HostReconciler(NoZone()))
        .reconciled_by(HostReconciler(ZoneFile(Path("zone.txt"))))
    )
