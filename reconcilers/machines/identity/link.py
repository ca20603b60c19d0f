"""The operator's link to the servers of Nstance: its identity, and with it a session for each shard. Background work of a manager.

Guarantees: nothing is registered, renewed or connected unless this process leads. A failed enrolment is repeated after 1 s, doubled up to
30 s, and its reason is in `problem`; a change of the document of shards or of the authority is tried at once. A renewed certificate and
another authority take effect without a restart. If no certificate works with an authority, `problem` reports it, and the sessions stay as
they are. If a certificate expires although it could not be renewed, every shard counts as unreachable, and enrolment begins again with the
nonce that exists then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Final

from konverge.client import Client
from konverge.client.credentials import TlsMaterial
from konverge.clock import rfc3339, wall_clock
from konverge.errors import KonvergeError
from konverge.logs import get_logger
from konverge.reconcilers.machines.identity.certificates import OperatorName
from konverge.reconcilers.machines.identity.enrolment import Enrolled, Enrolment, sleep_until
from konverge.reconcilers.machines.identity.names import IdentityNames
from konverge.reconcilers.machines.identity.store import IdentityStore
from konverge.reconcilers.machines.shards.connections import Connections
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.shards.document import ShardMap
from konverge.tasks import Broadcast, wait_first
from konverge.words import LogKey
from konverge.workqueue import ItemExponential

__all__ = ["ServerLink"]

_KEY: Final = "enrolment"

_LOOK_AGAIN: Final = timedelta(seconds=30)
"""Seconds until an authority that could not be used is tried again: a nonce for it may exist then."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class ServerLink:
    """Keeps identity and connections. `use` gives the document of shards, `run` works until it is cancelled; `reports` is called when
    `problem` has changed.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        owner: OperatorName,
        namespace: str,
        names: IdentityNames,
        dial: Callable[[TlsMaterial], Awaitable[Dial]],
        entropy: Callable[[int], bytes],
        seconds: float = 10.0,
        reports: Callable[[], None] = lambda: None,
    ) -> None:
        self.connections = connections
        self.problem = "the document of shards was not read yet"
        """The reason why no certificate can be used; "" while one is in use."""
        self._owner = owner
        self._namespace = namespace
        self._names = names
        self._dial = dial
        self._entropy = entropy
        self._seconds = seconds
        self._reports = reports
        self._shards: ShardMap | None = None
        self._channels: Dial | None = None
        self._authority_version = ""
        self._authority_changed = False
        self._news = Broadcast()
        self._log = get_logger("konverge.machines")

    def use(self, shards: ShardMap) -> None:
        """Serve these shards from now on."""
        if shards == self._shards:
            return
        self._shards = shards
        if self._channels is not None:
            self.connections.use(shards, self._channels)
        self._news.notify()

    def use_authority(self, version: str) -> None:
        """Read the authority again if its ConfigMap has another version than at the last call."""
        if version != self._authority_version:
            self._authority_version, self._authority_changed = version, True
            self._news.notify()

    async def run(self, client: Client, random: Random) -> None:
        """Enrol, connect and renew; never returns."""
        store = IdentityStore(client, self._namespace, self._names)
        enrolment = Enrolment(store, owner=self._owner, dial=self._dial, entropy=self._entropy, seconds=self._seconds)
        while True:
            enrolled = await self._enrolled(enrolment, random)
            await self._connect(enrolled)
            await wait_first(self.connections.run(), self._renewing(enrolment, enrolled))
            self._channels = None
            self._report("the certificate has expired, and no shard renewed it")
            self.connections.report_unreachable("its session ended with the operator's certificate, which has expired")

    async def _enrolled(self, enrolment: Enrolment, random: Random) -> Enrolled:
        delays: ItemExponential[str] = ItemExponential(base=1.0, cap=30.0)
        while True:
            if self._shards is None:
                await self._news.wait()
                continue
            shards, self._authority_changed = self._shards, False
            try:
                enrolled = await enrolment.enrol(shards)
            except KonvergeError as error:
                self._report(str(error))
                if shards is self._shards:
                    pause = delays.when(_KEY, asyncio.get_running_loop().time()) * random.uniform(0.5, 1.0)
                    await wait_first(asyncio.sleep(pause), self._news.wait())
            else:
                self._report("")
                return enrolled

    def _report(self, problem: str) -> None:
        if problem == self.problem:
            return
        if problem:
            self._log.warning("no certificate for the servers of Nstance", **{LogKey.ERROR: problem})
        self.problem = problem
        self._reports()

    async def _connect(self, enrolled: Enrolled) -> None:
        self._channels = await self._dial(enrolled.tls)
        assert self._shards is not None
        self.connections.use(self._shards, self._channels)
        self._log.info("connects with a certificate", **{LogKey.EXPIRES: rfc3339(enrolled.certificate.not_after)})

    async def _renewing(self, enrolment: Enrolment, enrolled: Enrolled) -> None:
        """Renew at half of each life, and follow the authority in its ConfigMap; returns when a certificate expired."""
        renew_at, failures, look_at = enrolled.certificate.renew_at(wall_clock(), fresh=False), 0, _NEVER
        while True:
            await wait_first(sleep_until(min(renew_at, look_at)), self._authority_news())
            clients = [partial(self.connections.client, name) for name in self.connections.shards]
            if self._authority_changed or look_at <= wall_clock():
                self._authority_changed = False
                assert self._shards is not None
                try:
                    followed = await enrolment.follow_authority(enrolled, self._shards, clients)
                except KonvergeError as error:
                    # The sessions keep the previous authority: they are no worse than they were.
                    self._report(f"ConfigMap {self._names.ca_configmap} has changed and is not used yet: {error}")
                    look_at = wall_clock() + _LOOK_AGAIN
                else:
                    self._report("")
                    if followed is not enrolled:
                        enrolled = followed
                        await self._connect(enrolled)
                    renew_at, failures, look_at = enrolled.certificate.renew_at(wall_clock(), fresh=False), 0, _NEVER
                continue
            try:
                enrolled = await enrolment.renew(enrolled, clients)
            except KonvergeError as failure:
                if enrolled.certificate.not_after <= wall_clock():
                    return
                pause = enrolled.certificate.retry(failures, wall_clock())
                failures += 1
                self._log.warning(
                    "the certificate was not renewed",
                    **{LogKey.ERROR: str(failure), LogKey.DELAY: pause.total_seconds()},
                )
                renew_at = wall_clock() + pause
            else:
                await self._connect(enrolled)
                renew_at, failures = enrolled.certificate.renew_at(wall_clock(), fresh=True), 0

    async def _authority_news(self) -> None:
        """Return when the ConfigMap of the authority has changed."""
        while not self._authority_changed:
            await self._news.wait()
