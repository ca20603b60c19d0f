"""Names of values in other charts (cert-manager, Flux, Bitnami's library, `helm create`), and their names here. Pure data.

Each value has one name here. Another chart's name is refused by a message with the name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["OTHER_NAMES"]

_MONITORS: Final = "metrics.podMonitor or metrics.serviceMonitor"

OTHER_NAMES: Final[Mapping[str, str]] = {
    "containerSecurityContext": "securityContext",
    "crds.create": "crds.install",
    "crds.enabled": "crds.install",
    "deploymentStrategy": "strategy",
    "env": "extraEnv",
    "envFrom": "extraEnvFrom",
    "extraDeploy": "extraObjects",
    "extraEnvs": "extraEnv",
    "extraInitContainers": "initContainers",
    "extraManifests": "extraObjects",
    "installCRDs": "crds.install",
    "leaderElection": "election",
    "livenessProbe": "probes.liveness",
    "logFormat": "settings.log_format",
    "logLevel": "settings.log_level",
    "pdb": "podDisruptionBudget",
    "podDnsConfig": "dnsConfig",
    "podDnsPolicy": "dnsPolicy",
    "podMonitor": "metrics.podMonitor",
    "prometheus": _MONITORS,
    "rbac.createAggregation": "userRoles.aggregateToView",
    "readinessProbe": "probes.readiness",
    "replicaCount": "replicas",
    "service": "metrics.service",
    "serviceAccount.automount": "automountServiceAccountToken",
    "serviceAccount.automountServiceAccountToken": "automountServiceAccountToken",
    "serviceMonitor": "metrics.serviceMonitor",
    "sidecars": "extraContainers",
    "startupProbe": "probes.startup",
    "updateStrategy": "strategy",
    "volumeMounts": "extraVolumeMounts",
    "volumes": "extraVolumes",
    "watchAllNamespaces": "watchNamespace",
    "webhook": "webhooks",
}
"""The path of a value in another chart, and its path here."""
