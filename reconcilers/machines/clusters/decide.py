"""The conditions and the endpoint of an NstanceCluster. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from konverge.crds.machines_v1beta1 import (
    ControlPlaneEndpoint,
    FailureDomain,
    Initialization,
    NstanceCluster,
    NstanceClusterSpec,
    NstanceClusterStatus,
)
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.words import ClusterReason, MachinesAnnotation, MachinesCondition
from konverge.runtime import Apply, ConditionUpdate, Plan

__all__ = ["endpoint_of", "next_check", "plan_provisioning", "shards_condition"]


def shards_condition(
    *, document: str, certificate: str, problems: Mapping[str, str], shards: Collection[str] | None
) -> ConditionUpdate:
    """Return the condition: `document` and `certificate` are their problems, `problems` the unreachable shards."""
    if document:
        kept = "; the shards in use stay" if shards else ""
        return _condition(False, ClusterReason.INVALID_DOCUMENT, f"{document}{kept}")
    if certificate:
        return _condition(False, ClusterReason.NO_CERTIFICATE, certificate)
    if problems:
        named = "; ".join(f"{shard}: {problem}" for shard, problem in sorted(problems.items()))
        return _condition(False, ClusterReason.SHARD_UNREACHABLE, f"groups are not imported meanwhile: {named}")
    return _condition(True, ClusterReason.CONNECTED, f"{len(shards or ())} shards answer")


def plan_provisioning(
    cluster: NstanceCluster, server: str, shards: Collection[str] | None, settings: MachineSettings
) -> Plan[NstanceClusterStatus]:
    """Return the endpoint and the status that the contract of a Cluster requires; an externally managed NstanceCluster gets neither.

    `server` is the address that this process has for the API server; `shards` None: no document was read yet.
    """
    if MachinesAnnotation.EXTERNALLY_MANAGED in (cluster.metadata.annotations or {}):
        return Plan()
    applies: tuple[Apply, ...] = ()
    if cluster.spec.control_plane_endpoint is None:
        spec = NstanceClusterSpec(control_plane_endpoint=endpoint_of(settings.control_plane_endpoint, server))
        applies = (Apply(NstanceCluster.new(cluster.name, cluster.namespace, spec=spec), force=True),)
    draft = NstanceClusterStatus(initialization=Initialization(provisioned=True))
    if shards is not None:
        draft.failure_domains = tuple(FailureDomain(name=shard) for shard in shards)
    message = "there is nothing to provision for a Cluster"
    ready = ConditionUpdate(MachinesCondition.READY, True, ClusterReason.PROVISIONED, message)
    return Plan(applies=applies, set_conditions=(ready,), draft=draft)


def next_check(settings: MachineSettings, *, lasts: bool) -> Outcome:
    """Return the outcome of an NstanceCluster: it is reconciled again while a problem lasts that sends no event."""
    return RequeueAfter(timedelta(seconds=settings.unreachable_retry)) if lasts else Done()


def _condition(status: bool, reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(MachinesCondition.SHARDS_REACHABLE, status, reason, message)


def endpoint_of(setting: str, server: str) -> ControlPlaneEndpoint:
    """Return the endpoint that machines use: the setting, else the address that this process has for the API server.

    >>> endpoint_of("", "https://10.0.0.1").port
    443
    """
    if setting:
        chosen = Address.parse(setting)
        return ControlPlaneEndpoint(host=chosen.host, port=chosen.port)
    parts = urlsplit(server)
    return ControlPlaneEndpoint(host=parts.hostname or "", port=parts.port or (80 if parts.scheme == "http" else 443))
