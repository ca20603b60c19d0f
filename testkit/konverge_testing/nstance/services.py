"""The gRPC services of a shard: the caller from its certificate, the faults, and the responses of the shard's state."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpclib.const import Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from konverge.reconcilers.machines.wire import operator_pb2 as pb
from konverge.reconcilers.machines.wire import registration_pb2 as registration
from konverge.reconcilers.machines.wire.operator_grpc import OperatorServiceBase
from konverge.reconcilers.machines.wire.registration_grpc import RegistrationServiceBase
from konverge_testing.nstance.faults import CallFault, ShardFaults
from konverge_testing.nstance.pki import role_of
from konverge_testing.nstance.registrar import Registrar
from konverge_testing.nstance.shard import ShardState

__all__ = ["AnswerCodec", "Call", "CallOutcome", "OperatorService", "RegistrationService", "ServiceDeps"]

_OPERATOR: Final = "operator"
_GARBAGE: Final = b"\xff\xff\xff"
"""The beginning of a tag that never ends."""


class CallOutcome(enum.Enum):
    """The outcome of a call, as far as the caller can know it."""

    OPEN = "open"
    """It has not ended: it is being handled, is a stream, or hangs."""
    ANSWERED = "answered"
    REFUSED = "refused"
    """An error, or a connection that ended, and the server did nothing."""
    LOST = "lost"
    """The server acted, and the caller got no response."""


@dataclass(slots=True, eq=False)
class Call:
    """A call that reached the server; its outcome is set when it ends."""

    time: float
    method: str
    tenant: str
    request: Message
    outcome: CallOutcome = CallOutcome.OPEN


class AnswerCodec(ProtoCodec):
    """Encodes messages, except the message that a fault replaces with garbage."""

    def __init__(self) -> None:
        self.garbled: Message | None = None

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the bytes of a message."""
        if message is self.garbled:
            self.garbled = None
            return _GARBAGE
        return super().encode(message, message_type)


@dataclass
class ServiceDeps:
    """The parts that the services of one shard share."""

    shard: str
    state: ShardState
    registrar: Registrar
    faults: ShardFaults
    codec: AnswerCodec
    calls: list[Call]


class _Answers:
    """Handles calls, and injects their faults."""

    def __init__(self, deps: ServiceDeps) -> None:
        self._deps = deps

    async def _begin(self, stream: Stream[Any, Any], method: str, tenant: str) -> tuple[Call, CallFault | None]:
        request = await stream.recv_message()
        if request is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "the call has no message")
        call = Call(asyncio.get_running_loop().time(), method, tenant, request)
        self._deps.calls.append(call)
        fault = self._deps.faults.take(method)
        if fault is CallFault.UNAVAILABLE:
            call.outcome = CallOutcome.REFUSED
            raise GRPCError(Status.UNAVAILABLE, "the server is not available")
        if fault is CallFault.HANG:
            await asyncio.get_running_loop().create_future()
        return call, fault

    async def _answer(
        self, stream: Stream[Any, Any], method: str, tenant: str, act: Callable[[Any], Message | None]
    ) -> None:
        call, fault = await self._begin(stream, method, tenant)
        call.outcome = CallOutcome.REFUSED  # unless the server acts
        if fault is CallFault.CUT_BEFORE:
            _cut(stream)
            return
        response = act(call.request) or Empty()
        call.outcome = CallOutcome.LOST  # unless the response is sent
        if fault is CallFault.HANG_AFTER:
            await asyncio.get_running_loop().create_future()
        if fault is CallFault.CUT_AFTER:
            _cut(stream)
            return
        if fault is CallFault.LOST_LEADERSHIP:
            raise GRPCError(Status.UNAVAILABLE, "leadership lost")
        if fault is CallFault.GARBAGE:
            self._deps.codec.garbled = response
        else:
            call.outcome = CallOutcome.ANSWERED  # before the response is sent: the caller may act on it at once
        await stream.send_message(response)


class RegistrationService(RegistrationServiceBase, _Answers):
    """Serves clients without a certificate."""

    async def RegisterOperator(  # noqa: N802  # the method's name
        self, stream: Stream[registration.RegisterClientRequest, registration.RegisterClientResponse]
    ) -> None:
        """Register an operator."""
        await self._register(stream, "RegisterOperator", _OPERATOR)

    async def RegisterAgent(  # noqa: N802  # the method's name
        self, stream: Stream[registration.RegisterClientRequest, registration.RegisterClientResponse]
    ) -> None:
        """Register an agent."""
        await self._register(stream, "RegisterAgent", "agent")

    async def _register(self, stream: Stream[Any, Any], method: str, role: str) -> None:
        def act(request: registration.RegisterClientRequest) -> registration.RegisterClientResponse:
            manifest, end = self._deps.registrar.register(
                self._deps.shard, request.registration_nonce_jwt, request.public_key_pem, role
            )
            return registration.RegisterClientResponse(client_certificate_pem=manifest, expires_at=_time(end))

        await self._answer(stream, method, "", act)


class OperatorService(OperatorServiceBase, _Answers):
    """Serves operators, each for its own tenant."""

    async def RenewCertificate(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Issue the caller's next certificate."""
        tenant = _tenant(stream)

        def act(request: pb.RenewCertificateRequest) -> pb.RenewCertificateResponse:
            manifest, end = self._deps.registrar.renew(self._deps.shard, tenant, request.public_key_pem, _OPERATOR)
            return pb.RenewCertificateResponse(client_certificate_pem=manifest, expires_at=_time(end))

        await self._answer(stream, "RenewCertificate", tenant, act)

    async def GetConfigStatus(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Describe the configuration."""
        await self._serve(stream, "GetConfigStatus", lambda tenant, _: self._deps.state.config_status(tenant))

    async def RefreshConfig(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Read the configuration again."""
        await self._serve(stream, "RefreshConfig", lambda tenant, _: self._deps.state.refresh_config(tenant))

    async def ListGroups(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """List the groups of the tenant."""
        await self._serve(stream, "ListGroups", lambda tenant, _: self._deps.state.list_groups(tenant))

    async def UpsertGroup(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Merge into a group."""
        await self._serve(stream, "UpsertGroup", self._deps.state.upsert_group)

    async def DeleteGroup(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Delete the dynamic part of a group."""
        await self._serve(stream, "DeleteGroup", self._deps.state.delete_group)

    async def CreateInstance(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Create an instance on demand."""
        await self._serve(stream, "CreateInstance", self._deps.state.create_instance)

    async def DeleteInstance(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Delete an instance."""
        await self._serve(stream, "DeleteInstance", self._deps.state.delete_instance)

    async def GetInstanceStatus(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """Describe an instance."""
        await self._serve(stream, "GetInstanceStatus", self._deps.state.instance_status)

    async def AcknowledgeDrained(self, stream: Stream[Any, Any]) -> None:  # noqa: N802  # the method's name
        """End a drain."""
        await self._serve(stream, "AcknowledgeDrained", self._deps.state.acknowledge_drained)

    async def _serve(self, stream: Stream[Any, Any], method: str, act: Callable[[str, Any], Message | None]) -> None:
        """Answer a call for the tenant of the caller."""
        tenant = _tenant(stream)
        await self._answer(stream, method, tenant, lambda sent: act(tenant, sent))

    async def WatchGroups(self, stream: Stream[Any, pb.GroupEvent]) -> None:  # noqa: N802  # the method's name
        """Send the groups, then their changes."""
        tenant, state = _tenant(stream), self._deps.state
        await self._send(
            stream, "WatchGroups", tenant, state.group_events.follow(tenant, lambda: state.group_snapshot(tenant))
        )

    async def WatchInstances(self, stream: Stream[Any, pb.InstanceEvent]) -> None:  # noqa: N802  # the method's name
        """Send the drains in progress, then each drain that begins."""
        tenant, state = _tenant(stream), self._deps.state
        await self._send(
            stream,
            "WatchInstances",
            tenant,
            state.instance_events.follow(tenant, lambda: state.instance_snapshot(tenant)),
        )

    async def WatchErrors(self, stream: Stream[Any, pb.ErrorEvent]) -> None:  # noqa: N802  # the method's name
        """Send errors as they happen."""
        tenant = _tenant(stream)
        await self._send(stream, "WatchErrors", tenant, self._deps.state.error_events.follow(tenant, lambda: ()))

    async def _send(self, stream: Stream[Any, Any], method: str, tenant: str, events: AsyncIterator[Message]) -> None:
        """Send events until they end. Like grpc-go, send the headers with the first event."""
        _, fault = await self._begin(stream, method, tenant)
        if fault is CallFault.CUT_BEFORE:
            _cut(stream)
            return
        async for event in events:
            if fault is CallFault.GARBAGE:
                self._deps.codec.garbled, fault = event, None
            await stream.send_message(event)


def _cut(stream: Stream[Any, Any]) -> None:
    stream.peer._transport.close()  # grpclib offers no way to a connection


def _tenant(stream: Stream[Any, Any]) -> str:
    """Return the tenant of the caller; raises unless it is an operator."""
    connection = stream.peer._transport.get_extra_info("ssl_object")  # grpclib's own parser ignores extensions
    encoded = None if connection is None else connection.getpeercert(binary_form=True)
    if not encoded:
        raise GRPCError(Status.UNAUTHENTICATED, "no client certificate")
    certificate = x509.load_der_x509_certificate(encoded)
    if role_of(certificate) != _OPERATOR:
        raise GRPCError(Status.PERMISSION_DENIED, "the certificate is not an operator's")
    names = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0].value)


def _time(when: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(when)
    return timestamp
