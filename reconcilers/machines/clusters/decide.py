"""The state of all shards as one condition. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from konverge.crds.machines_v1beta1 import ControlPlaneEndpoint
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.words import ClusterReason, MachinesCondition
from konverge.runtime import ConditionUpdate

__all__ = ["endpoint_of", "shards_condition"]


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
