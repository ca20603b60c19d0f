"""Our client against an Nstance server on another implementation of gRPC, HTTP/2 and TLS: @grpc/grpc-js.

The double shares grpclib and our reading of its code with the client; this server shares only the .proto files.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from built_programs import built_or_skipped
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nstance_link import NAMES, SEED, Linked, linked, shards_at

from konverge.client.credentials import TlsMaterial
from konverge.reconcilers.machines.identity.certificates import private_key_pem, public_key_pem
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.shards.client import ShardClient
from konverge.reconcilers.machines.shards.dialing import over_tls
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import (
    DrainEvent,
    Group,
    GroupConfig,
    InstanceConfig,
    InstanceState,
    ProviderFailure,
)
from konverge_testing.nstance import NstanceWorld
from konverge_testing.nstance.pki import public_pem

pytestmark = pytest.mark.timeout(60, func_only=True)  # the first fetch of the packages is slow

PROGRAM = "nstance-on-grpc-js"
SOURCE = Path(__file__).parents[2] / "support" / "nstance_grpc_js"
PROTOS = Path(__file__).parents[3] / "reconcilers" / "machines" / "wire"
DELETE_AT = datetime(2040, 1, 1, 0, 0, 30, tzinfo=UTC)


class Program:
    """The server's process; `calls` are the methods that were called, with the name of the caller."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.calls: list[tuple[str, dict[str, str] | None]] = []
        self.addresses: dict[str, str] = {}
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "call" in said:
                self.calls.append((said["call"], said["peer"]))
            else:
                self._lines.put_nowait(said)

    async def begin(self) -> None:
        async with asyncio.timeout(30):
            self.addresses = (await self._lines.get())["listening"]

    async def tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        async with asyncio.timeout(30):
            await self._lines.get()

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading


@pytest.fixture(scope="module")
def build(request: pytest.FixtureRequest) -> Path:
    return built_or_skipped(PROGRAM, request.config)


@pytest.fixture
def world() -> NstanceWorld:
    """The authority and its certificates: Node cannot sign certificates."""
    return NstanceWorld(random=Random(1))


@pytest.fixture(params=[(1, 2), (0, 1)], ids=["newer numbers", "older numbers"])
def numbers(request: pytest.FixtureRequest) -> tuple[int, int]:
    """The numbers of an upsert and a deletion of a group in events."""
    found: tuple[int, int] = request.param
    return found


@pytest.fixture
async def program(build: Path, world: NstanceWorld, numbers: tuple[int, int], tmp_path: Path) -> AsyncIterator[Program]:
    authority = world.authority
    identity = authority.server([])
    key = private_key_pem(SEED)
    public = public_key_pem(key)

    def issued(life: timedelta) -> tuple[str, int]:
        loaded = Ed25519PrivateKey.from_private_bytes(SEED).public_key()
        pem, end = authority.client(loaded, cluster_id="acme", tenant="blue", role="operator", life=life)
        return pem.decode(), int(end.timestamp())

    first, expires = issued(timedelta(hours=24))
    renewed, _ = issued(timedelta(days=365))
    static = {"key": "workers", "tenant": "blue", "template": "std", "size": 2, "is_static": True, "etag": "e1"}
    one = {"instance_id": "knc1", "tenant": "blue", "group": "workers", "status": "running"}
    config = {
        "cluster_id": "acme",
        "tenant": "blue",
        "protos": str(PROTOS),
        "ca": authority.certificate.decode(),
        "server": {"certificate": identity.certificate.decode(), "key": identity.key.decode()},
        "client": {"public": public.decode(), "first": first, "renewed": renewed, "expires": expires},
        "nonce_key": public_pem(authority._nonce_key).decode(),
        "groups": [{**static, "actual_size": 1, "provider_ids": ["i-1"], "vars": {"zone": "a"}}],
        "instances": [{**one, "provider_instance_id": "i-1"}],
        "upsert_type": numbers[0],
        "delete_type": numbers[1],
    }
    folder = tmp_path / "server"
    shutil.copytree(SOURCE, folder)
    (folder / "node_modules").symlink_to(build / "node_modules")
    (folder / "config.json").write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        *("node", "server.js", "config.json"),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    made = Program(process)
    try:
        await made.begin()
        yield made
    finally:
        await made.end()


@pytest.fixture
async def operator(program: Program, world: NstanceWorld) -> AsyncIterator[Linked]:
    """A link that has enrolled and received a report of the server."""
    shards = shards_at({"a": (program.addresses["operator"], program.addresses["registration"])})
    async with linked(shards, ca=world.authority.certificate, nonce=world.nonce()) as made:
        await made.until(lambda: "a" in made.heard.groups)
        yield made


async def test_the_operator_registers_lists_changes_and_follows_groups(program: Program, operator: Linked) -> None:
    assert operator.heard.groups["a"] == (
        Group("workers", "std", 2, vars={"zone": "a"}, is_static=True, etag="e1", actual_size=1, provider_ids=("i-1",)),
    )
    assert program.calls[0] == ("RegisterOperator", None)
    peers = {json.dumps(peer) for name, peer in program.calls[1:]}
    assert peers == {json.dumps({"cluster": "acme", "tenant": "blue", "role": "operator"})}
    shard = operator.shard("a")
    made = await shard.upsert_group("gpu", GroupConfig(3, "std", "g5.xlarge", "private", {"a": ""}))
    assert (made.key, made.size, made.instance_type, made.subnet_pool, made.vars) == (
        *("gpu", 3, "g5.xlarge", "private"),
        {"a": ""},
    )
    await operator.until(lambda: {one.key for one in operator.heard.groups["a"]} == {"workers", "gpu"})
    await shard.delete_group("gpu")
    await operator.until(lambda: {one.key for one in operator.heard.groups["a"]} == {"workers"})
    assert await shard.create_instance("knc2", InstanceConfig("workers")) == InstanceState("pending")
    assert await shard.instance_state("knc2") == InstanceState("running", "i-2")
    assert [await shard.delete_instance(one) for one in ("knc2", "other")] == ["deleting", "unknown"]


async def test_drains_deletions_and_errors_of_the_provider_arrive(program: Program, operator: Linked) -> None:
    await operator.until(lambda: {"WatchInstances", "WatchErrors"} <= {name for name, _ in program.calls})
    seconds = int(DELETE_AT.timestamp())
    event = {"instance_id": "knc1", "provider_instance_id": "i-1", "group": "workers", "reason": "spot-interruption"}
    drain = {**event, "status": "pending_deletion", "delete_at": {"seconds": seconds, "nanos": 0}}
    await program.tell(stream="WatchInstances", event=drain)
    heard = operator.heard
    await operator.until(lambda: bool(heard.all("a", DrainEvent)))
    assert heard.all("a", DrainEvent) == [
        DrainEvent("knc1", "i-1", "workers", "pending_deletion", "spot-interruption", DELETE_AT)
    ]
    await operator.shard("a").acknowledge_drained("knc1")
    await operator.until(lambda: len(heard.all("a", DrainEvent)) == 2)
    assert heard.all("a", DrainEvent)[1] == DrainEvent("knc1", "i-1", "workers", "deleted", "expired", None)
    await program.tell(stream="WatchErrors", event={"group": "workers", "instance_id": "", "error": "no capacity"})
    await operator.until(lambda: bool(heard.all("a", ProviderFailure)))
    assert heard.all("a", ProviderFailure) == [ProviderFailure("workers", "", "no capacity")]


CODES = {
    "UNAUTHENTICATED": FailureKind.DENIED,
    "PERMISSION_DENIED": FailureKind.DENIED,
    "INVALID_ARGUMENT": FailureKind.INVALID,
    "FAILED_PRECONDITION": FailureKind.NOT_LEADER,
    "NOT_FOUND": FailureKind.NOT_FOUND,
    "UNAVAILABLE": FailureKind.UNREACHABLE,
    "INTERNAL": FailureKind.FAILED,
}


@pytest.mark.parametrize("numbers", [(1, 2)], ids=["newer numbers"])
async def test_refusals_arrive_by_code_and_text_and_a_certificate_is_renewed(
    program: Program, operator: Linked, world: NstanceWorld
) -> None:
    shard = operator.shard("a")
    for code, expected in CODES.items():
        await program.tell(fail="DeleteInstance", code=code, text=f"because of {code}")
        with pytest.raises(ShardFailure) as failed:
            await shard.delete_instance("knc1")
        assert (failed.value.kind, failed.value.text) == (expected, f"because of {code} ({code})")
    with pytest.raises(ShardFailure, match="cannot override template for static group workers"):
        await shard.upsert_group("workers", GroupConfig(1, template="gpu"))
    key = await operator.stored(NAMES.key_secret, "private.key")
    assert key == private_key_pem(SEED)
    first = await operator.stored(NAMES.certificate_secret, "tls.crt")
    renewed = await shard.renew_certificate(public_key_pem(key))
    assert renewed != first
    for certificate in (first, renewed):
        tls = TlsMaterial(ca=world.authority.certificate, certificate=certificate, key=key)
        async with (await over_tls(tls))(Address.parse(program.addresses["operator"])) as channel:
            found = await ShardClient("a", channel, seconds=10).list_groups()
            assert [one.key for one in found] == ["workers"]


@pytest.mark.parametrize("numbers", [(1, 2)], ids=["newer numbers"])
async def test_certificates_of_another_role_tenant_or_authority_are_refused(
    program: Program, world: NstanceWorld
) -> None:
    stranger = NstanceWorld(random=Random(2))
    foreign = stranger.operator_tls()
    refused = {
        "role": (world.operator_tls(role="agent"), FailureKind.DENIED, "role agent is not operator"),
        "tenant": (world.operator_tls(tenant="red"), FailureKind.DENIED, "another tenant"),
        "server": (foreign, FailureKind.DENIED, "its certificate is refused"),
        "client": (
            TlsMaterial(ca=world.authority.certificate, certificate=foreign.certificate, key=foreign.key),
            None,
            "",
        ),
        "none": (TlsMaterial(ca=world.authority.certificate), None, ""),
    }
    for name, (tls, kind, words) in refused.items():
        async with (await over_tls(tls))(Address.parse(program.addresses["operator"])) as channel:
            with pytest.raises(ShardFailure) as failed:
                await ShardClient("a", channel, seconds=10).list_groups()
        # A server sees the client's certificate after the handshake of the client, so the end of the call has several forms.
        assert kind in (None, failed.value.kind), name
        assert words in failed.value.text, name
    assert program.calls == []
