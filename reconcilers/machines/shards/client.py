"""The calls and streams of one shard.

Guarantees: no call lasts longer than its time limit, including the connection; a stream opens within the limit. Every failure is a
`ShardFailure`.

Caveats: a stream without events waits for ever, since its silence proves nothing: `session.py` polls as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from grpclib.client import Channel, UnaryStreamMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from konverge.reconcilers.machines.shards.failures import ShardFailure, failure_of_code, failure_of_connection
from konverge.reconcilers.machines.shards.messages import (
    DrainEvent,
    Group,
    GroupConfig,
    InstanceConfig,
    InstanceState,
    ProviderFailure,
    drain_event,
    group,
    instance_state,
    provider_failure,
)
from konverge.reconcilers.machines.wire import operator_pb2 as pb
from konverge.reconcilers.machines.wire.operator_grpc import OperatorServiceStub
from konverge.reconcilers.machines.wire.registration_grpc import RegistrationServiceStub
from konverge.reconcilers.machines.wire.registration_pb2 import RegisterClientRequest

__all__ = ["ShardClient", "ended", "failures", "register_operator"]

Response = TypeVar("Response")
Event = TypeVar("Event", bound=Message)


@contextmanager
def failures(shard: str, seconds: float) -> Generator[None, None, None]:
    """Raise every failure of a call as a `ShardFailure`."""
    try:
        yield
    except GRPCError as error:
        raise failure_of_code(shard, error.status.name, error.message or "") from error
    except (
        OSError,
        StreamTerminatedError,
        ProtocolError,
        DecodeError,
    ) as error:  # TimeoutError and SSLError are OSErrors
        raise failure_of_connection(shard, error, seconds) from error


class ShardClient:
    """One shard's server, over a channel that belongs to the caller; `seconds` is the limit of one call."""

    def __init__(self, shard: str, channel: Channel, *, seconds: float) -> None:
        self.shard = shard
        self._stub = OperatorServiceStub(channel)
        self._seconds = seconds

    async def list_groups(self) -> tuple[Group, ...]:
        """Return all groups of the tenant."""
        response = await self._call(self._stub.ListGroups(Empty()))
        return tuple(group(listed) for listed in response.groups)

    async def upsert_group(self, key: str, config: GroupConfig) -> Group:
        """Create or change a group; returns it as the server merged it."""
        sent = pb.GroupConfig(
            template=config.template,
            size=config.size,
            instance_type=config.instance_type,
            subnet_pool=config.subnet_pool,
            vars=config.vars,
        )
        return group(await self._call(self._stub.UpsertGroup(pb.UpsertGroupRequest(key=key, config=sent))))

    async def delete_group(self, key: str) -> None:
        """Delete a dynamic group, or the changes of a static one; an absent group is a success."""
        await self._call(self._stub.DeleteGroup(pb.DeleteGroupRequest(key=key)))

    async def create_instance(self, instance_id: str, config: InstanceConfig) -> InstanceState:
        """Create an instance on demand under this id."""
        sent = pb.InstanceConfig(group=config.group, instance_type=config.instance_type, vars=config.vars)
        request = pb.CreateInstanceRequest(instance_id=instance_id, config=sent)
        return InstanceState((await self._call(self._stub.CreateInstance(request))).status)

    async def instance_state(self, instance_id: str) -> InstanceState:
        """Return the state of an instance; NOT_FOUND if the server does not know it."""
        request = pb.GetInstanceStatusRequest(instance_id=instance_id)
        return instance_state(await self._call(self._stub.GetInstanceStatus(request)))

    async def delete_instance(self, instance_id: str) -> str:
        """Delete an instance, and return its status: "unknown" if the server does not know it."""
        request = pb.DeleteInstanceRequest(instance_id=instance_id)
        return str((await self._call(self._stub.DeleteInstance(request))).status)

    async def acknowledge_drained(self, instance_id: str) -> None:
        """Report an instance as drained, so that the server deletes it; NOT_FOUND if the server does not know it."""
        await self._call(self._stub.AcknowledgeDrained(pb.DrainAckRequest(instance_id=instance_id)))

    async def group_changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever groups changed.

        The events themselves are not used: two numberings of their types exist, and `list_groups` has the truth.
        """
        async for _ in self._stream(self._stub.WatchGroups):
            yield

    async def drain_events(self) -> AsyncGenerator[DrainEvent, None]:
        """Yield the drains in progress, then every change of an instance."""
        async for event in self._stream(self._stub.WatchInstances):
            yield drain_event(event)

    async def provider_failures(self) -> AsyncGenerator[ProviderFailure, None]:
        """Yield the errors of the provider as they happen."""
        async for event in self._stream(self._stub.WatchErrors):
            yield provider_failure(event)

    async def renew_certificate(self, public_key: bytes) -> bytes:
        """Return the next certificate, PEM, of the caller's key; NOT_LEADER unless this server leads the cluster."""
        response = await self._call(self._stub.RenewCertificate(pb.RenewCertificateRequest(public_key_pem=public_key)))
        return bytes(response.client_certificate_pem)

    async def _call(self, call: Awaitable[Response]) -> Response:
        with failures(self.shard, self._seconds):
            async with asyncio.timeout(self._seconds):
                return await call

    async def _stream(self, method: UnaryStreamMethod[Any, Event]) -> AsyncGenerator[Event, None]:
        with failures(self.shard, self._seconds):
            async with method.open() as stream:
                async with asyncio.timeout(self._seconds):
                    await stream.send_message(Empty(), end=True)
                async for event in stream:
                    yield event


async def register_operator(shard: str, channel: Channel, *, nonce: str, public_key: bytes, seconds: float) -> bytes:
    """Exchange a nonce and a public key for a certificate, PEM, over a channel without a client certificate; raises ShardFailure."""
    request = RegisterClientRequest(registration_nonce_jwt=nonce, public_key_pem=public_key)
    with failures(shard, seconds):
        async with asyncio.timeout(seconds):
            response = await RegistrationServiceStub(channel).RegisterOperator(request)
    return bytes(response.client_certificate_pem)


def ended(shard: str) -> ShardFailure:
    """Return the failure of a stream that its server ended cleanly."""
    return failure_of_connection(shard, ConnectionError("the server ended a stream"), 0)
