"""The server of one shard: its state, and its response to each call. It knows no connections.

Guarantees: codes, texts and merges are those of docs/reference/machines.md.

Caveats: these are assumptions, since the server's source was not read for them: CreateInstance with an existing id returns that
instance; CreateInstance of an unknown group is INTERNAL.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from konverge.clock import wall_clock
from konverge.reconcilers.machines.wire import operator_pb2 as pb
from konverge_testing.nstance.groups import GroupRefused, GroupSpec, GroupStore, Merged
from konverge_testing.nstance.instances import DELETED, RUNNING, Fleet, Instance, Pace
from konverge_testing.nstance.streams import EventStreams

__all__ = ["IDENTIFIER", "ShardState"]

IDENTIFIER: Final = re.compile(r"(?=.{1,32}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z")
"""The names of clusters, tenants, shards, groups and subnet pools."""

_PENDING_DELETION = "pending_deletion"


def _time(when: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(when)
    return timestamp


def _check_identifier(name: str, value: str) -> None:
    if not value:
        raise GRPCError(Status.INVALID_ARGUMENT, f"{name} is required")
    if not IDENTIFIER.match(value):
        raise GRPCError(Status.INVALID_ARGUMENT, f"invalid {name}: {value!r}")


class ShardState:
    """Groups, instances and streams of one shard."""

    def __init__(self, random: Random, pace: Pace) -> None:
        self.fleet = Fleet(random=random, pace=pace, draining=self._draining, gone=self._gone)
        self.group_events: EventStreams[pb.GroupEvent] = EventStreams()
        self.instance_events: EventStreams[pb.InstanceEvent] = EventStreams()
        self.error_events: EventStreams[pb.ErrorEvent] = EventStreams()
        self.old_numbering = False
        """Number the types of group events as servers did before the renumbering."""
        self.sends_deleted = True
        """Whether the end of an instance is an event; the servers that were read never send one."""
        self._groups: dict[str, GroupStore] = {}

    def groups(self, tenant: str) -> GroupStore:
        """Return the groups of a tenant."""
        return self._groups.setdefault(tenant, GroupStore())

    # --- the administrator ---------------------------------------------------------------------------------------------------

    def set_static(self, tenant: str, key: str, spec: GroupSpec | None) -> None:
        """Write a static group into the configuration, or remove it with None; the server reloads."""
        store = self.groups(tenant)
        if spec is None:
            store.static.pop(key, None)
        else:
            store.static[key] = spec
        self._announce(tenant, key)

    def report_error(self, tenant: str, error: str, *, group: str = "", instance_id: str = "") -> None:
        """Send an error of the provider to the stream of the tenant."""
        event = pb.ErrorEvent(group=group, instance_id=instance_id, error=error, timestamp=_time(wall_clock()))
        self.error_events.send(tenant, event)

    # --- groups --------------------------------------------------------------------------------------------------------------

    def list_groups(self, tenant: str) -> pb.ListGroupsResponse:
        """Handle ListGroups."""
        return pb.ListGroupsResponse(groups=[self._status(tenant, item) for item in self.groups(tenant).all()])

    def upsert_group(self, tenant: str, request: pb.UpsertGroupRequest) -> pb.GroupStatus:
        """Handle UpsertGroup. Arguments that an operator sends are dropped."""
        _check_identifier("key", request.key)
        if not request.HasField("config"):
            raise GRPCError(Status.INVALID_ARGUMENT, "config is required")
        sent = request.config
        if sent.subnet_pool:
            _check_identifier("subnet_pool", sent.subnet_pool)
        spec = GroupSpec(sent.template, sent.size, sent.instance_type, sent.subnet_pool, dict(sent.vars))
        try:
            merged = self.groups(tenant).upsert(request.key, spec)
        except GroupRefused as refused:
            raise GRPCError(Status.INTERNAL, f"failed to upsert group: {refused}") from refused
        self._announce(tenant, request.key)
        return self._status(tenant, merged)

    def delete_group(self, tenant: str, request: pb.DeleteGroupRequest) -> None:
        """Handle DeleteGroup; the deletion of an absent group succeeds, and is an event too."""
        _check_identifier("key", request.key)
        self.groups(tenant).delete(request.key)
        self._announce(tenant, request.key)

    def config_status(self, tenant: str) -> pb.ConfigStatusResponse:
        """Handle GetConfigStatus."""
        written = repr(sorted(self.groups(tenant).static.items())).encode()
        etag = hashlib.md5(written, usedforsecurity=False).hexdigest()
        return pb.ConfigStatusResponse(etag=etag, size=len(written))

    def refresh_config(self, tenant: str) -> pb.RefreshConfigResponse:
        """Handle RefreshConfig: it changes nothing, because the double reads each change of the configuration at once."""
        etag = self.config_status(tenant).etag
        return pb.RefreshConfigResponse(updated=False, prev_etag=etag, etag=etag)

    # --- instances -----------------------------------------------------------------------------------------------------------

    def create_instance(self, tenant: str, request: pb.CreateInstanceRequest) -> pb.CreateInstanceResponse:
        """Handle CreateInstance."""
        if not request.HasField("config"):
            raise GRPCError(Status.INVALID_ARGUMENT, "config is required")
        _check_identifier("group", request.config.group)
        known = self.fleet.instances.get(request.instance_id)
        if known is not None:
            self._check_tenant(tenant, known)
        if self.groups(tenant).get(request.config.group) is None:
            raise GRPCError(Status.INTERNAL, f'failed to create instance: group "{request.config.group}" not found')
        manifest = self.fleet.create(tenant, request.config.group, managed=False, id=request.instance_id)
        return pb.CreateInstanceResponse(instance_id=manifest.id, status=manifest.status)

    def delete_instance(self, tenant: str, request: pb.DeleteInstanceRequest) -> pb.DeleteInstanceResponse:
        """Handle DeleteInstance."""
        if not request.instance_id:
            raise GRPCError(Status.INVALID_ARGUMENT, "instance_id is required")
        known = self.fleet.instances.get(request.instance_id)
        if known is None:
            return pb.DeleteInstanceResponse(status="unknown")
        self._check_tenant(tenant, known)
        self.fleet.delete(known)
        return pb.DeleteInstanceResponse(status=known.status)

    def instance_status(self, tenant: str, request: pb.GetInstanceStatusRequest) -> pb.InstanceStatusResponse:
        """Handle GetInstanceStatus; the response never has the tenant."""
        item = self._instance(tenant, request.instance_id)
        return pb.InstanceStatusResponse(
            instance_id=item.id,
            status=item.status,
            created_at=_time(item.created_at),
            last_seen=_time(wall_clock()) if item.status == RUNNING else None,
            provider_instance_id=item.provider_id,
        )

    def acknowledge_drained(self, tenant: str, request: pb.DrainAckRequest) -> None:
        """Handle AcknowledgeDrained: the instance is deleted at once."""
        self.fleet.acknowledge(self._instance(tenant, request.instance_id))

    # --- streams -------------------------------------------------------------------------------------------------------------

    def group_snapshot(self, tenant: str) -> Iterator[pb.GroupEvent]:
        """Return the first events of a stream of groups: an upsert of each group."""
        for item in self.groups(tenant).all():
            yield self._event(self._status(tenant, item), deleted=False)

    def instance_snapshot(self, tenant: str) -> Iterator[pb.InstanceEvent]:
        """Return the first events of a stream of instances: the drains in progress, all with reason "unhealthy"."""
        for item in self.fleet.draining(tenant):
            event = self._drain_event(item)
            event.reason = "unhealthy"
            yield event

    def end_streams(self) -> None:
        """End all streams cleanly."""
        for streams in (self.group_events, self.instance_events, self.error_events):
            streams.end()

    # --- inside --------------------------------------------------------------------------------------------------------------

    def _announce(self, tenant: str, key: str) -> None:
        merged = self.groups(tenant).get(key)
        self.fleet.scale(tenant, key, 0 if merged is None else merged.spec.size)
        if merged is None:
            absent = pb.GroupStatus(key=key, tenant="" if self.old_numbering else tenant)
            self.group_events.send(tenant, self._event(absent, deleted=True))
        else:
            self.group_events.send(tenant, self._event(self._status(tenant, merged), deleted=False))

    def _event(self, status: pb.GroupStatus, *, deleted: bool) -> pb.GroupEvent:
        number = int(deleted) if self.old_numbering else 1 + int(deleted)
        return pb.GroupEvent(type=pb.GroupEvent.Type.Name(number), group=status)

    def _status(self, tenant: str, merged: Merged) -> pb.GroupStatus:
        running = [item for item in self.fleet.counting(tenant, merged.key) if item.status == RUNNING]
        spec = merged.spec
        return pb.GroupStatus(
            key=merged.key,
            tenant=tenant,
            template=spec.template,
            size=spec.size,
            instance_type=spec.instance_type,
            subnet_pool=spec.subnet_pool,
            vars=spec.vars,
            is_static=merged.is_static,
            etag=merged.etag,
            actual_size=len(running),
            provider_ids=[item.provider_id for item in running],
        )

    def _check_tenant(self, tenant: str, instance: Instance) -> None:
        if instance.tenant != tenant:
            raise GRPCError(Status.PERMISSION_DENIED, "instance belongs to another tenant")

    def _instance(self, tenant: str, instance_id: str) -> Instance:
        if not instance_id:
            raise GRPCError(Status.INVALID_ARGUMENT, "instance_id is required")
        instance = self.fleet.instances.get(instance_id)
        if instance is None:
            raise GRPCError(Status.NOT_FOUND, "instance not found")
        self._check_tenant(tenant, instance)
        return instance

    def _draining(self, instance: Instance) -> None:
        self.instance_events.send(instance.tenant, self._drain_event(instance))

    def _drain_event(self, instance: Instance) -> pb.InstanceEvent:
        assert instance.drain is not None
        return pb.InstanceEvent(
            instance_id=instance.id,
            tenant=instance.tenant,
            provider_instance_id=instance.provider_id,
            group=instance.group,
            status=_PENDING_DELETION,
            reason=instance.drain.reason,
            unhealthy_at=_time(instance.drain.started),
            delete_at=_time(instance.drain.delete_at),
        )

    def _gone(self, instance: Instance) -> None:
        if self.sends_deleted:
            event = pb.InstanceEvent(
                instance_id=instance.id,
                tenant=instance.tenant,
                provider_instance_id=instance.provider_id,
                group=instance.group,
                status=DELETED,
                reason=instance.reason,
            )
            self.instance_events.send(instance.tenant, event)
