"""The contents of an Nstance server's messages that the family needs for decisions, apart from protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from konverge.reconcilers.machines.wire import operator_pb2 as pb

__all__ = [
    "DrainEvent",
    "Group",
    "GroupConfig",
    "InstanceConfig",
    "InstanceState",
    "ProviderFailure",
    "drain_event",
    "group",
    "instance_state",
    "provider_failure",
]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a shard shows it: merged settings, and its running instances."""

    key: str
    template: str = ""
    size: int = 0
    instance_type: str = ""
    subnet_pool: str = ""
    vars: Mapping[str, str] = field(default_factory=dict)
    is_static: bool = False
    etag: str = ""
    actual_size: int = 0
    provider_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a group that are sent to a shard; an empty one leaves the server's as it is."""

    size: int
    template: str = ""
    instance_type: str = ""
    subnet_pool: str = ""
    vars: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    """The settings of an instance on demand; an empty setting takes the group's value."""

    group: str
    instance_type: str = ""
    vars: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance as a shard shows it; the provider id is empty until its provider assigns one."""

    status: str
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class DrainEvent:
    """A change of an instance: it is to be drained until `delete_at`, or it was deleted."""

    instance_id: str
    provider_id: str
    group: str
    status: str
    reason: str
    delete_at: datetime | None


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """An error that the provider of a shard reported."""

    group: str
    instance_id: str
    error: str


def _time(stamp: Timestamp) -> datetime | None:
    """Return a time, None if it is outside of what a datetime holds: the message stays usable without it."""
    try:
        return stamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def group(message: pb.GroupStatus) -> Group:
    """Read the status of a group."""
    return Group(
        key=message.key,
        template=message.template,
        size=message.size,
        instance_type=message.instance_type,
        subnet_pool=message.subnet_pool,
        vars=dict(message.vars),
        is_static=message.is_static,
        etag=message.etag,
        actual_size=message.actual_size,
        provider_ids=tuple(message.provider_ids),
    )


def instance_state(message: pb.InstanceStatusResponse) -> InstanceState:
    """Read the state of an instance."""
    return InstanceState(message.status, message.provider_instance_id)


def drain_event(message: pb.InstanceEvent) -> DrainEvent:
    """Read the event of an instance."""
    return DrainEvent(
        instance_id=message.instance_id,
        provider_id=message.provider_instance_id,
        group=message.group,
        status=message.status,
        reason=message.reason,
        delete_at=_time(message.delete_at) if message.HasField("delete_at") else None,
    )


def provider_failure(message: pb.ErrorEvent) -> ProviderFailure:
    """Read an error of the provider."""
    return ProviderFailure(message.group, message.instance_id, message.error)
