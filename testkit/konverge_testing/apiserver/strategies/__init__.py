"""The behaviour of each built-in kind beyond its schema: defaults, checks, fields that clients cannot set, selectable fields.

Guarantees: `STRATEGIES` has a `Strategy` for every built-in kind with rules of its own, by (group, plural); kinds that are absent have
none. Everything is pure and synchronous, and works on plain data in the storage version. `normalise` and `decode_errors` repeat
the effects of Go's decoding and encoding on built-in kinds, which OpenAPI does not describe.

Order of a create: `decode_errors`, `normalise`, `Strategy.default`, admission, `prepare_create`, `validate`, and for services `allocate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge_testing.apiserver.resources import Strategy
from konverge_testing.apiserver.strategies import (
    claims,
    config,
    crds,
    endpoints,
    events,
    jobs,
    networking,
    nodes,
    pods,
    policies,
    rights,
    services,
    sets,
    webhooks,
    workloads,
)
from konverge_testing.apiserver.strategies.decode import decode_errors
from konverge_testing.apiserver.strategies.normalise import normalise
from konverge_testing.apiserver.strategies.schema_only import SCHEMA_ONLY

__all__ = ["STRATEGIES", "decode_errors", "normalise"]

_RBAC: Final = "rbac.authorization.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

STRATEGIES: Final[Mapping[tuple[str, str], Strategy]] = {
    **SCHEMA_ONLY,
    ("", "configmaps"): config.ConfigMap(),
    ("", "endpoints"): endpoints.Endpoints(),
    ("", "events"): events.CoreEvent(),
    ("", "limitranges"): policies.LimitRange(),
    ("", "namespaces"): config.Namespace(),
    ("", "nodes"): nodes.Node(),
    ("", "persistentvolumeclaims"): claims.PersistentVolumeClaim(),
    ("", "persistentvolumes"): claims.PersistentVolume(),
    ("", "pods"): pods.Pod(),
    ("", "resourcequotas"): policies.ResourceQuota(),
    ("", "secrets"): config.Secret(),
    ("", "serviceaccounts"): config.ServiceAccount(),
    ("", "services"): services.Service(),
    (_ADMISSION, "mutatingwebhookconfigurations"): webhooks.MutatingWebhooks(),
    (_ADMISSION, "validatingwebhookconfigurations"): webhooks.ValidatingWebhooks(),
    ("apiextensions.k8s.io", "customresourcedefinitions"): crds.CustomResourceDefinition(),
    ("apps", "daemonsets"): sets.DaemonSet(),
    ("apps", "deployments"): workloads.Deployment(),
    ("apps", "replicasets"): workloads.ReplicaSet(),
    ("apps", "statefulsets"): sets.StatefulSet(),
    ("batch", "cronjobs"): jobs.CronJob(),
    ("batch", "jobs"): jobs.Job(),
    ("coordination.k8s.io", "leases"): events.Lease(),
    ("events.k8s.io", "events"): events.Event(),
    (_NETWORKING, "ingresses"): networking.Ingress(),
    (_NETWORKING, "networkpolicies"): networking.NetworkPolicy(),
    ("policy", "poddisruptionbudgets"): policies.PodDisruptionBudget(),
    (_RBAC, "clusterrolebindings"): rights.ClusterRoleBinding(),
    (_RBAC, "clusterroles"): rights.ClusterRole(),
    (_RBAC, "rolebindings"): rights.RoleBinding(),
    (_RBAC, "roles"): rights.Role(),
    ("scheduling.k8s.io", "priorityclasses"): policies.PriorityClass(),
}
