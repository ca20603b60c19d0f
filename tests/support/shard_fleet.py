"""Replicas that share their objects as processes on a real control plane, and the audit log as the record of their reconciles."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet import Fleet
from forkserver import ForkServer
from operators import Operator
from widgets import CONFIG_MAP

from konverge.client import Client
from konverge.clock import from_rfc3339
from konverge.runtime.sharding.hashing import owner_of
from konverge.runtime.sharding.settings import ShardingMode
from konverge.runtime.sharding.stamp import annotation_of
from konverge_testing import ControlPlane

PATIENCE = 180.0
"""Seconds after which a wait has failed; a busy machine takes ten times as long as a quiet one."""
_SUPPORT = Path(__file__).parent
_WORD = re.compile(r"(begin|hold|end)-(source-\d+)-(\d+)")
_MEMBER = "this replica is a member of the ring"
STAMP = annotation_of("shards")


@dataclass(frozen=True)
class Times:
    """Lease, renewal, retry and join in seconds."""

    lease: float
    renew: float
    retry: float
    join: float

    def settings(self) -> Iterator[str]:
        for name, value in vars(self).items():
            yield from ("--set", f"sharding.{name}_seconds={value}")


@dataclass
class Reconcile:
    """One reconcile in the audit log; `ended` is None for a reconcile that runs or was interrupted."""

    source: str
    user: str
    epoch: int
    began: datetime
    ended: datetime | None = None
    held: bool = False


class Record:
    """The reconciles and writes of replicas, as the API server received them."""

    def __init__(self, lines: Iterable[bytes], namespace: str) -> None:
        self.reconciles: list[Reconcile] = []
        self.copies: list[tuple[datetime, str, str]] = []
        """Each write of a copy: when it was received, by whom, of which source."""
        self.created: list[str] = []
        """The sources whose copies were created."""
        running: dict[tuple[str, str], Reconcile] = {}
        for entry in sorted(_entries(lines, namespace), key=lambda one: str(one["requestReceivedTimestamp"])):
            name, user = entry["objectRef"].get("name", ""), entry["user"]["username"]
            received = from_rfc3339(entry["requestReceivedTimestamp"])
            code = (entry.get("responseStatus") or {}).get("code", 0)
            # A patch without a response is checked later with a GET, which does not count as a reconcile.
            found = _WORD.fullmatch(name) if entry["verb"] == "patch" else None
            if found and found[1] == "begin":
                running[user, found[2]] = one = Reconcile(found[2], user, int(found[3]), received)
                self.reconciles.append(one)
            elif found and found[1] == "hold":
                running[user, found[2]].held = True
            elif found:
                running[user, found[2]].ended = from_rfc3339(entry["stageTimestamp"])
            elif entry["verb"] == "patch" and name.startswith("copy-of-") and 200 <= code < 300:
                source = name.removeprefix("copy-of-")
                self.copies.append((received, user, source))
                if code == 201:
                    self.created.append(source)

    def overlaps(self) -> list[tuple[Reconcile, Reconcile]]:
        """Return the reconciles of one object by two replicas that overlap, or whose epochs do not increase."""
        wrong = []
        latest: dict[str, Reconcile] = {}
        for one in self.reconciles:
            before = latest.get(one.source)
            if before is not None:
                same = before.user == one.user
                late = before.ended is not None and before.ended > one.began
                if (same and one.epoch < before.epoch) or (not same and (late or one.epoch <= before.epoch)):
                    wrong.append((before, one))
            latest[one.source] = one
        return wrong

    def stale_writes(self) -> list[tuple[datetime, str, str]]:
        """Return the writes of copies by a replica that was not the last to begin a reconcile of their source."""
        begins = [(one.began, one.user, one.source) for one in self.reconciles]
        wrong, last = [], dict[str, str]()
        for moment, kind, user, source in sorted(
            [(moment, 0, user, source) for moment, user, source in begins]
            + [(moment, 1, user, source) for moment, user, source in self.copies]
        ):
            if kind == 0:
                last[source] = user
            elif last.get(source) != user:
                wrong.append((moment, user, source))
        return wrong

    def held(self) -> set[str]:
        """Return the sources whose latest reconcile is held."""
        latest = {reconcile.source: reconcile for reconcile in self.reconciles}
        return {source for source, reconcile in latest.items() if reconcile.held and reconcile.ended is None}

    def first_by(self, user: str) -> dict[str, datetime]:
        """Return when the first reconcile of each source by this replica began."""
        return {reconcile.source: reconcile.began for reconcile in reversed(self.reconciles) if reconcile.user == user}

    def first_after(self, source: str, since: datetime, *, other_than: str = "") -> datetime | None:
        """Return when another replica than this first began to reconcile an object since a time."""
        found = (one.began for one in self.reconciles if one.source == source and one.user != other_than)
        return next((began for began in found if began >= since), None)


def _entries(lines: Iterable[bytes], namespace: str) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            entry = json.loads(line)
            about = entry.get("objectRef") or {}
            if entry.get("stage") == "ResponseComplete" and about.get("namespace") == namespace:
                yield entry


class ShardFleet(Fleet):
    """Processes of `shard_operator:build` that share the ConfigMaps of a namespace."""

    def __init__(
        self, plane: ControlPlane, namespace: str, folder: Path, client: Client, fork: ForkServer, times: Times
    ) -> None:
        super().__init__(plane, namespace, folder, lease=(times.lease, times.renew, times.retry))
        self.client = client
        self.times = times
        self.ring = "shards"
        self.mode: ShardingMode = "hash"
        self._fork = fork
        self._replica_of: dict[str, str] = {}

    def operator(self, name: str, kubeconfig: Path) -> Operator:
        return Operator(
            (
                f"{_SUPPORT / 'shard_operator.py'}:build",
                *("--kubeconfig", str(kubeconfig), "--namespace", self.namespace, "--log-format", "json"),
                *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0", "--name", "shards"),
                *("--sharding", self.mode, "--set", f"sharding.namespace={self.namespace}"),
                *("--set", f"sharding.ring={self.ring}", *self.times.settings()),
            ),
            self.folder / f"{name}.log",
            forkserver=self._fork,
        )

    def member_of(self, name: str) -> str:
        """Return the name of a replica as a member of the ring, "" before it has joined."""
        found = self.members[name].operator.said(_MEMBER)
        if found is None:
            return ""
        member: str = found["identity"]
        self._replica_of[member] = name
        return member

    async def sources(self, count: int) -> None:
        """Create objects."""
        made = (CONFIG_MAP.new(f"source-{number}", self.namespace, data={"value": "0"}) for number in range(count))
        await asyncio.gather(*(self.client.create(one) for one in made))

    async def change(self, source: str, **data: str | None) -> None:
        """Change entries of an object's data; None removes an entry."""
        await self.client.patch(CONFIG_MAP, source, self.namespace, patch={"data": data}, style="merge")

    async def settled(self, *names: str, within: float = PATIENCE) -> dict[str, str]:
        """Wait until each object is owned by the replica that the hash of these names gives, and return the owners."""
        wrong: dict[str, str] = {}
        try:
            async with asyncio.timeout(within):
                while True:
                    members = [self.member_of(name) for name in names]
                    found = [
                        one
                        for one in await self.client.list(CONFIG_MAP, self.namespace)
                        if one.name.startswith("source-")
                    ]
                    stamped = {one.name: one.metadata.annotation(STAMP).rpartition("/")[0] for one in found}
                    wanted = {one.name: owner_of(one.metadata.uid, members) for one in found}
                    wrong = {name: stamped[name] for name in stamped if stamped[name] != wanted[name]}
                    if all(members) and not wrong:
                        return {name: self._replica_of[member] for name, member in stamped.items()}
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not shared among {names}: {wrong}") from None

    async def record(self) -> Record:
        """Return the audit log's content, once it is complete: the API server writes it a moment later."""
        await asyncio.sleep(0.5)
        return Record(self.plane.audit_file.read_bytes().splitlines(), self.namespace)
