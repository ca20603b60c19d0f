"""Descriptions of the built-in kinds, one sentence each, for `kubectl explain`. Fields have no descriptions here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SENTENCES"]

SENTENCES: Final[Mapping[str, str]] = {
    "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration": "Webhooks that may change a request's object.",
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration": "Webhooks that may refuse a request.",
    "io.k8s.api.apps.v1.ControllerRevision": "A frozen state of a DaemonSet or StatefulSet, to go back to.",
    "io.k8s.api.apps.v1.DaemonSet": "Runs one pod on each node that fits.",
    "io.k8s.api.apps.v1.Deployment": "Keeps a number of equal pods running and rolls changes out to them.",
    "io.k8s.api.apps.v1.ReplicaSet": "Keeps a number of equal pods running.",
    "io.k8s.api.apps.v1.StatefulSet": "Keeps pods with lasting names and volumes running.",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": "Sets the replicas of a workload by its metrics.",
    "io.k8s.api.batch.v1.CronJob": "Makes a Job at each time of a schedule.",
    "io.k8s.api.batch.v1.Job": "Runs pods until enough of them have succeeded.",
    "io.k8s.api.coordination.v1.Lease": "Who holds something, and until when.",
    "io.k8s.api.core.v1.ConfigMap": "Configuration as keys and values.",
    "io.k8s.api.core.v1.Event": "Something that happened to an object.",
    "io.k8s.api.core.v1.LimitRange": "Bounds and defaults for what the pods of a namespace ask for.",
    "io.k8s.api.core.v1.Namespace": "A room for names, rights and quotas.",
    "io.k8s.api.core.v1.Node": "A machine that runs pods.",
    "io.k8s.api.core.v1.PersistentVolume": "A piece of storage that outlives pods.",
    "io.k8s.api.core.v1.PersistentVolumeClaim": "Asks for storage, and holds it.",
    "io.k8s.api.core.v1.Pod": "Containers that run together on one node.",
    "io.k8s.api.core.v1.ResourceQuota": "What a namespace may use in sum.",
    "io.k8s.api.core.v1.Secret": "Confidential data as keys and values.",
    "io.k8s.api.core.v1.Service": "One address for a changing set of pods.",
    "io.k8s.api.core.v1.ServiceAccount": "An identity for programs.",
    "io.k8s.api.discovery.v1.EndpointSlice": "Some of the addresses behind a Service.",
    "io.k8s.api.events.v1.Event": "Something that happened to an object.",
    "io.k8s.api.networking.v1.Ingress": "Routes HTTP from outside to Services.",
    "io.k8s.api.networking.v1.NetworkPolicy": "Which traffic pods may have.",
    "io.k8s.api.policy.v1.PodDisruptionBudget": "How many pods of a set may be away at a time.",
    "io.k8s.api.rbac.v1.ClusterRole": "Rights for the whole cluster, or for use in any namespace.",
    "io.k8s.api.rbac.v1.ClusterRoleBinding": "Gives a ClusterRole to subjects everywhere.",
    "io.k8s.api.rbac.v1.Role": "Rights in one namespace.",
    "io.k8s.api.rbac.v1.RoleBinding": "Gives a role to subjects in one namespace.",
    "io.k8s.api.scheduling.v1.PriorityClass": "How important pods are.",
    "io.k8s.api.storage.v1.StorageClass": "A kind of storage, and who provides it.",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": "A kind of your own.",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService": "Who serves a version of a group.",
}
"""By the name of the definition in the schemas."""
