"""The operator's key and certificate: each step of an enrolment, a crash at each of its writes and calls, renewal, and expiry."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from nstance_kit import Heard, dial, shard_map
from pull_kit import Steps, _ToServer

from konverge.client import Client, ClientConfig, ClientSettings
from konverge.client.credentials import TlsMaterial
from konverge.client.transport import Transport
from konverge.clock import wall_clock
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge.reconcilers.machines.identity.certificates import (
    CertificateRefused,
    OperatorCertificate,
    OperatorName,
    private_key_pem,
    public_key_pem,
    read_certificate,
)
from konverge.reconcilers.machines.identity.decide import (
    MakeKey,
    NeedsAdministrator,
    RegisterKey,
    StoredIdentity,
    UseCertificate,
    next_step,
)
from konverge.reconcilers.machines.identity.link import ServerLink
from konverge.reconcilers.machines.identity.names import IdentityNames
from konverge.reconcilers.machines.shards.connections import Connections
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge_testing import ApiServer
from konverge_testing.nstance import CallFault, Network, NstanceWorld

OWNER = OperatorName("acme", "blue")
NAMES = IdentityNames()
NAMESPACE = "nstance-system"
SECRET = kind("v1", "Secret", namespaced=True, plural="secrets")
CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
START = datetime(2030, 1, 1, tzinfo=UTC)


# --- the decision ------------------------------------------------------------------------------------------------------------


def issued(world: NstanceWorld, **changes: Any) -> StoredIdentity:
    tls = world.operator_tls(**changes)
    return StoredIdentity(ca=tls.ca, certificate=tls.certificate, certificate_key=tls.key)


def self_signed_rsa() -> StoredIdentity:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "acme")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, START, START + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    return StoredIdentity(
        certificate=certificate, certificate_key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )


def expired(world: NstanceWorld) -> StoredIdentity:
    return issued(world, life=timedelta(seconds=-1))


def of_another_key(world: NstanceWorld) -> StoredIdentity:
    return replace(issued(world), certificate_key=private_key_pem(bytes(32)))


REFUSED: list[tuple[Callable[[NstanceWorld], StoredIdentity], str]] = [
    (expired, "the certificate expired at 2029-12-31T23:59:59Z"),
    (of_another_key, "the certificate belongs to another key"),
    (lambda world: issued(world, tenant="green"), "the certificate is of tenant green, the settings say blue"),
    (lambda world: issued(world, role="agent"), "the certificate is not an operator's"),
    (
        lambda world: replace(issued(NstanceWorld(random=Random(9))), ca=issued(world).ca),
        "the authority .* did not sign",
    ),
    (
        lambda world: replace(issued(NstanceWorld(cluster_id="other", random=Random(9)))),
        "of cluster other, .* say acme",
    ),
    (lambda world: replace(issued(world), certificate=b"no"), "the certificate or its authority is not PEM"),
    (lambda world: replace(issued(world), certificate_key=b"no"), "the private key is not PEM"),
    (lambda world: replace(self_signed_rsa(), ca=issued(world).ca), "the private key is .*RSA.*, not Ed25519"),
    (
        lambda world: replace(self_signed_rsa(), ca=issued(world).ca, certificate_key=issued(world).certificate_key),
        "the certificate's key is .*RSA.*, not Ed25519",
    ),
]


@pytest.mark.parametrize(("stored", "words"), REFUSED)
async def test_unusable_certificate_is_named_and_replaced_if_a_nonce_exists(
    stored: Callable[[NstanceWorld], StoredIdentity], words: str
) -> None:
    world = NstanceWorld(random=Random(1))
    found = stored(world)
    with pytest.raises(CertificateRefused, match=words):
        read_certificate(
            ca=found.ca, certificate=found.certificate, key=found.certificate_key, owner=OWNER, now=wall_clock()
        )
    blocked = next_step(found, names=NAMES, owner=OWNER, now=wall_clock())
    assert isinstance(blocked, NeedsAdministrator)
    assert blocked.message.startswith("Secret nstance-operator-cert: ")
    assert blocked.message.endswith(": put a new nonce into Secret nstance-operator-nonce, key nonce.jwt")
    again = replace(found, nonce="n", key=private_key_pem(bytes(32)))
    assert next_step(again, names=NAMES, owner=OWNER, now=wall_clock()) == RegisterKey()


async def test_the_steps_follow_what_is_stored() -> None:
    world = NstanceWorld(random=Random(1))
    ca, key = world.authority.certificate, private_key_pem(bytes(32))
    good = issued(world)
    steps = {
        "nothing": next_step(StoredIdentity(), names=NAMES, owner=OWNER, now=START),
        "authority": next_step(StoredIdentity(ca=ca), names=NAMES, owner=OWNER, now=START),
        "nonce": next_step(StoredIdentity(ca=ca, nonce="n"), names=NAMES, owner=OWNER, now=START),
        "key": next_step(StoredIdentity(ca=ca, nonce="n", key=key), names=NAMES, owner=OWNER, now=START),
        "bad key": next_step(StoredIdentity(ca=ca, nonce="n", key=b"x"), names=NAMES, owner=OWNER, now=START),
        "done": next_step(replace(good, nonce="n"), names=NAMES, owner=OWNER, now=START),
        "in use": next_step(good, names=NAMES, owner=OWNER, now=START),
    }
    life = OperatorCertificate(START - timedelta(minutes=1), START + timedelta(hours=24))
    assert steps == {
        "nothing": NeedsAdministrator(
            "there is no authority: put the cluster's into ConfigMap nstance-cluster-ca, key ca.crt"
        ),
        "authority": NeedsAdministrator(
            "there is no certificate in Secret nstance-operator-cert: put a new nonce into Secret nstance-operator-nonce, key nonce.jwt"
        ),
        "nonce": MakeKey(),
        "key": RegisterKey(),
        "bad key": NeedsAdministrator(
            "Secret nstance-operator-key: the private key is not PEM: delete it, and a new key is made"
        ),
        "done": UseCertificate(life, drops_nonce=True),
        "in use": UseCertificate(life, drops_nonce=False),
    }


@pytest.mark.parametrize(
    ("failures", "left", "minutes"),
    [(0, 600, 1), (1, 600, 2), (2, 600, 4), (4, 600, 16), (5, 600, 30), (50, 600, 30), (5, 20, 10), (0, 1, 0.5)],
)
def test_failed_renewal_backs_off_to_at_most_half_the_remaining_time(failures: int, left: int, minutes: float) -> None:
    certificate = OperatorCertificate(START, START + timedelta(minutes=left))
    assert certificate.retry(failures, START) == timedelta(minutes=minutes)
    assert certificate.retry(failures, START + timedelta(days=9)) == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("hours", "fresh", "expected"),
    [(0, True, 12), (0, False, 12), (6, False, 12), (20, True, 12), (-1, True, 11), (-24, True, -12), (-1, False, -1)],
)
def test_certificate_is_renewed_at_half_life_or_at_once_under_slow_clocks(
    hours: int, fresh: bool, expected: int
) -> None:
    certificate = OperatorCertificate(START, START + timedelta(days=1))
    renew_at = certificate.renew_at(START + timedelta(hours=hours), fresh=fresh)
    assert renew_at == START + timedelta(hours=expected)


async def test_no_text_of_an_identity_contains_a_key_or_the_nonce() -> None:
    stored = replace(issued(NstanceWorld(random=Random(1))), nonce="secret-nonce", key=private_key_pem(bytes(32)))
    assert "secret-nonce" not in repr(stored)
    assert "PRIVATE" not in repr(stored)


# --- the link ----------------------------------------------------------------------------------------------------------------


class Stage:
    """An API server, a cluster of Nstance, and one link at a time."""

    def __init__(self, server: ApiServer, client: Client, world: NstanceWorld) -> None:
        self.server = server
        self.client = client
        self.world = world
        self.heard = Heard()
        self.steps = Steps()
        self.link: ServerLink
        self._clients: list[Client] = []
        self._task: asyncio.Task[None] | None = None

    async def prepare(self, *, nonce: str | None = None) -> None:
        ca = {"ca.crt": self.world.authority.certificate.decode()}
        await self.client.create(CONFIG_MAP.new(NAMES.ca_configmap, NAMESPACE, data=ca))
        await self.give_nonce(self.world.nonce() if nonce is None else nonce)

    async def give_nonce(self, nonce: str) -> None:
        data = {"nonce.jwt": base64.b64encode(nonce.encode()).decode()}
        await self.client.create(SECRET.new(NAMES.nonce_secret, NAMESPACE, data=data))

    async def data(self, name: str) -> dict[str, bytes] | None:
        try:
            found = await self.client.get(SECRET, name, NAMESPACE)
        except NotFound:
            return None
        return {key: base64.b64decode(value) for key, value in found.get("data", default={}).items()}

    def start(self) -> None:
        inner = self.server.config()

        def over(_config: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
            return _ToServer(inner.open(settings, user_agent), lambda: self.steps)

        async def dialed(tls: TlsMaterial) -> Dial:
            return dial(self.world, tls)

        client = Client(ClientConfig.over(over), name="konverge", random=Random(3))
        self._clients.append(client)
        connections = Connections(self.heard, random=Random(4))
        self.link = ServerLink(
            connections, owner=OWNER, namespace=NAMESPACE, names=NAMES, dial=dialed, entropy=Random(5).randbytes
        )
        self.link.use(shard_map(self.world))
        self._task = asyncio.create_task(self.link.run(client, Random(6)))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            assert self._task.cancelled(), self._task.exception()

    async def close(self) -> None:
        await self.stop()
        for client in self._clients:
            await client.close()
        await self.world.close()

    async def until(self, holds: Callable[[], bool], seconds: float = 300) -> None:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.1)

    @property
    def connected(self) -> bool:
        return set(self.heard.groups) == set(self.world.shards)


@asynccontextmanager
async def staged(*, nonce: str | None = None) -> AsyncIterator[Stage]:
    async with (
        ApiServer(namespaces=(NAMESPACE,), random=Random(1)) as server,
        Client(server.config(), name="admin", random=Random(2)) as client,
    ):
        world = NstanceWorld(random=Random(1))
        for name in ("a", "b", "c"):
            world.add_shard(name)
        made = Stage(server, client, world)
        try:
            await made.prepare(nonce=nonce)
            yield made
        finally:
            await made.close()


async def check_enrolled(stage: Stage) -> None:
    """The stored certificate is valid and matches the stored key, and the nonce is deleted."""
    key, certificate = await stage.data(NAMES.key_secret), await stage.data(NAMES.certificate_secret)
    assert key is not None
    assert certificate is not None
    assert certificate["tls.key"] == key["private.key"]
    assert key["public.key"] == public_key_pem(key["private.key"])
    read_certificate(
        ca=stage.world.authority.certificate,
        certificate=certificate["tls.crt"],
        key=key["private.key"],
        owner=OWNER,
        now=wall_clock(),
    )
    assert await stage.data(NAMES.nonce_secret) is None


async def test_nonce_becomes_a_certificate_at_the_leading_shard_for_all_connections() -> None:
    async with staged() as stage:
        stage.world.registrar.leader = "c"
        stage.world.shards["a"].faults.network = Network.SILENT
        stage.start()
        await stage.until(lambda: set(stage.heard.groups) == {"b", "c"})
        await check_enrolled(stage)
        assert stage.link.problem == ""
        assert [stage.world.shards[name].called("RegisterOperator") for name in "abc"] == [0, 1, 1]
        stage.world.shards["a"].faults.network = Network.OPEN
        await stage.until(lambda: stage.connected)


WRITES = ["POST key", "POST certificate", "DELETE nonce"]


@pytest.mark.parametrize("moment", range(1, 2 * len(WRITES) + 1))
async def test_a_crash_before_or_after_any_write_ends_in_the_same_identity(moment: int) -> None:
    async with staged() as stage:
        stage.steps.fatal = moment
        stage.start()
        await stage.until(stage.steps.died.is_set)
        key = await stage.data(NAMES.key_secret)
        await stage.stop()
        stage.steps = Steps()
        stage.start()
        await stage.until(lambda: stage.connected)
        await check_enrolled(stage)
        assert key is None or key == await stage.data(NAMES.key_secret), "a key that was stored stays"
        assert stage.world.registrar.issued <= 2


async def test_an_enrolment_writes_key_certificate_and_nonce_in_this_order() -> None:
    async with staged() as stage:
        stage.start()
        await stage.until(lambda: stage.connected)
        writes = [name.split()[1] for name in stage.steps.names if name.startswith("before")]
        assert writes == ["POST", "POST", "DELETE"]
        assert stage.world.registrar.issued == 1


@pytest.mark.parametrize("fault", list(CallFault))
async def test_registration_that_fails_before_or_after_issuance_is_repeated_with_its_key(fault: CallFault) -> None:
    async with staged() as stage:
        stage.world.shards["a"].faults.add("RegisterOperator", fault)
        stage.start()
        await stage.until(lambda: stage.connected)
        await check_enrolled(stage)
        assert stage.world.registrar.issued <= 2


async def test_a_refused_nonce_is_reported_and_a_new_one_heals_it() -> None:
    async with staged(nonce="no-token") as stage:
        stage.start()
        await stage.until(lambda: "no shard registered" in stage.link.problem)
        assert "shard a: invalid nonce" in stage.link.problem
        assert "no-token" not in stage.link.problem
        await stage.client.delete(SECRET, NAMES.nonce_secret, NAMESPACE)
        await stage.until(lambda: "put a new nonce into Secret nstance-operator-nonce" in stage.link.problem)
        await stage.give_nonce(stage.world.nonce())
        await stage.until(lambda: stage.connected)
        await check_enrolled(stage)


async def test_certificate_is_renewed_at_half_life_by_any_leading_shard() -> None:
    async with staged() as stage:
        stage.world.registrar.first_life = timedelta(minutes=10)
        stage.start()
        await stage.until(lambda: stage.connected)
        first = await stage.data(NAMES.certificate_secret)
        stage.world.registrar.leader = "c"
        await asyncio.sleep(260)  # its life begins a minute before it was issued
        assert stage.world.registrar.issued == 1
        await asyncio.sleep(30)
        second = await stage.data(NAMES.certificate_secret)
        assert first is not None
        assert second is not None
        assert second["tls.crt"] != first["tls.crt"]
        assert second["tls.key"] == first["tls.key"]
        assert [stage.world.shards[name].called("RenewCertificate") for name in "abc"] == [1, 1, 1]
        await asyncio.sleep(600)  # the old certificate has expired: a new connection needs the new certificate
        assert failures(stage) == {}, "a change of the certificate is no failure"
        for shard in stage.world.shards.values():
            shard.reset()
        stage.heard.groups.clear()
        await stage.until(lambda: stage.connected)
        assert stage.world.registrar.issued == 2


async def test_a_renewal_that_fails_is_repeated_until_a_shard_leads_again() -> None:
    async with staged() as stage:
        stage.world.registrar.first_life = timedelta(minutes=10)
        stage.start()
        await stage.until(lambda: stage.connected)
        stage.world.registrar.leader = "nowhere"
        await asyncio.sleep(400)
        stage.world.registrar.leader = "b"
        await asyncio.sleep(150)
        assert stage.world.registrar.issued == 2
        assert stage.link.problem == ""


def failures(stage: Stage) -> dict[str, list[str]]:
    """Return the reported failures by shard."""
    heard = {name: stage.heard.all(name, ShardFailure) for name in stage.world.shards}
    return {
        name: [failure.text for failure in failures if isinstance(failure, ShardFailure)]
        for name, failures in heard.items()
        if failures
    }


async def test_an_expired_certificate_is_reported_and_a_new_nonce_heals_it() -> None:
    async with staged() as stage:
        stage.world.registrar.first_life = timedelta(minutes=2)
        stage.start()
        await stage.until(lambda: stage.connected)
        stage.world.registrar.leader = "nowhere"
        await asyncio.sleep(60)
        assert failures(stage) == {}, "the certificate is still valid"
        await asyncio.sleep(120)
        told = ["its session ended with the operator's certificate, which has expired"]
        assert failures(stage) == dict.fromkeys("abc", told), "a shard that is not connected is not shown as reachable"
        assert "Secret nstance-operator-cert: the certificate expired at " in stage.link.problem
        assert stage.link.problem.endswith("put a new nonce into Secret nstance-operator-nonce, key nonce.jwt")
        key = await stage.data(NAMES.key_secret)
        stage.world.registrar.leader = "b"
        stage.heard.groups.clear()
        await stage.give_nonce(stage.world.nonce())
        await stage.until(lambda: stage.connected)
        await check_enrolled(stage)
        assert key == await stage.data(NAMES.key_secret)


async def test_new_shard_document_is_used_at_once_by_a_waiting_enrolment() -> None:
    async with staged() as stage:
        for shard in stage.world.shards.values():
            shard.faults.network = Network.REFUSED
        stage.start()
        await stage.until(lambda: "no shard registered" in stage.link.problem)
        await asyncio.sleep(200)
        added = stage.world.add_shard("d")
        stage.world.registrar.leader = "d"
        stage.link.use(shard_map(stage.world))
        await asyncio.sleep(1)
        assert added.called("RegisterOperator") == 1
        assert set(stage.heard.groups) == {"d"}
        assert stage.link.connections.shards == ("a", "b", "c", "d")
