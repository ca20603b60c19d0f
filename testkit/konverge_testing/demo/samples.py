"""The samples of `konverge demo`, each with its expected end.

One ApplicationInstance of every mode, kind of source and kind of values; one Operation of each engine (`operations.yaml`); a Cluster in
pull mode (`cluster.yaml`), whose control plane installs one more instance; a pool of Nextclouds and three claims (`pools.yaml`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import yaml

__all__ = [
    "CLUSTERS",
    "EXPECTED",
    "EXPECTED_BY_SECTION",
    "INSTANCES",
    "MACHINES",
    "NAMESPACE",
    "NEXTCLOUDS",
    "OPERATIONS",
    "POOLS",
    "WORKSPACES",
    "Expected",
    "cluster_samples",
    "hint",
    "operation_samples",
    "pool_samples",
    "pull_job",
    "registration_token",
    "samples",
]

NAMESPACE: Final = "demo"


INSTANCES: Final = "Instance"
OPERATIONS: Final = "Operation"
CLUSTERS: Final = "Cluster"
POOLS: Final = "Pool"
NEXTCLOUDS: Final = "Nextcloud"
WORKSPACES: Final = "Workspace"
MACHINES: Final = "Machines"
"""The sections of the table."""


class Expected(NamedTuple):
    """Expected status and reason of a sample: status and reason of its condition Ready, or its phase and the phase's reason."""

    status: str
    reason: str


EXPECTED: Final = {
    "shop": Expected("True", "HelmReleaseReady"),
    "wiki": Expected("True", "HelmReleaseReady"),
    "blog": Expected("True", "HelmReleaseReady"),
    "mail": Expected("True", "Placeholder"),
    "chat": Expected("False", "WaitingForSecret"),
}

_BY_JOB: Final = "news"
"""The instance that the control plane installs."""

EXPECTED_BY_SECTION: Final[Mapping[str, Mapping[str, Expected]]] = {
    INSTANCES: {**EXPECTED, _BY_JOB: Expected("True", "HelmReleaseReady")},
    OPERATIONS: {
        name: Expected("Succeeded", "EngineCompleted")
        for name in ("nightly", "rotate-keys", "reindex", "upgrade", "copy-data", "migrate")
    },
    CLUSTERS: {"demo": Expected("Connected", "RoundTripOK")},
    POOLS: {"small": Expected("True", "Full")},
    NEXTCLOUDS: {name: Expected("True", "Assigned") for name in ("ada", "grace", "alan")},
}

_SAMPLES: Final = """
# A chart from a chart repository, values in the object itself. The annotations name the engines that Operations may use on it.
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata:
  name: shop
  annotations: {ops.vworkspace.io/runcommand: job, ops.vworkspace.io/upgrade: helm}
spec:
  appRef: {catalogId: shop}
  chart: {sourceType: helm, url: "https://charts.example.com", name: shop, version: 1.4.2}
  release: {name: shop, namespace: demo}
  values: {source: inline, inline: {replicas: 2}}
---
# A chart from an OCI registry, values in a ConfigMap.
apiVersion: v1
kind: ConfigMap
metadata: {name: wiki-values}
data: {values.yaml: "language: en\\n"}
---
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata:
  name: wiki
  annotations: {ops.vworkspace.io/backup: velero, ops.vworkspace.io/runbook: workflow}
spec:
  appRef: {catalogId: wiki}
  chart: {sourceType: oci, url: "oci://registry.example.com/charts", name: wiki, version: 2.0.1}
  release: {name: wiki, namespace: demo}
  values: {source: configMapRef, configMapRef: {name: wiki-values, key: values.yaml}}
---
# Values in a Secret; its content is never copied, logged or cached.
apiVersion: v1
kind: Secret
metadata: {name: blog-values}
stringData: {values.yaml: "admin: {password: correct-horse}\\n"}
---
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata:
  name: blog
  annotations: {ops.vworkspace.io/backup: volsync, ops.vworkspace.io/migration: helmHookJob}
spec:
  appRef: {catalogId: blog}
  chart: {sourceType: helm, url: "https://charts.example.com", name: blog, version: 0.9.0}
  release: {name: blog, namespace: demo}
  values: {source: secretRef, secretRef: {name: blog-values, key: values.yaml}}
---
# A placeholder: nothing is installed, operations may refer to it.
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata: {name: mail}
spec:
  mode: placeholder
  appRef: {catalogId: mail}
---
# A mistake: the Secret that it names does not exist. The table shows it; creating the Secret is enough.
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata: {name: chat}
spec:
  appRef: {catalogId: chat}
  chart: {sourceType: helm, url: "https://charts.example.com", name: chat, version: 3.1.0}
  release: {name: chat, namespace: demo}
  values: {source: secretRef, secretRef: {name: chat-values, key: values.yaml}}
"""


def hint(kubectl: str) -> str:
    """Return how to mend the sample `chat`; `kubectl` is the command to use, "" without kubectl.

    >>> hint("")
    'chat waits for a Secret named chat-values with the key values.yaml; create it, and watch'
    """
    if not kubectl:
        return "chat waits for a Secret named chat-values with the key values.yaml; create it, and watch"
    return (
        "chat waits for a Secret; give it one:\n"
        f"  {kubectl} -n demo create secret generic chat-values --from-literal=values.yaml='replicas: 1'"
    )


def samples() -> list[dict[str, Any]]:
    """Return the objects, in the order of their apply."""
    results = [document for document in yaml.safe_load_all(_SAMPLES) if document]
    for document in results:
        document["metadata"]["namespace"] = NAMESPACE
    return results


@cache
def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def operation_samples() -> list[dict[str, Any]]:
    """Return one Operation of each engine, and what they need, in the order of their apply."""
    return [document for document in yaml.safe_load_all(_text("operations.yaml")) if document]


def cluster_samples(endpoint: str = "") -> list[dict[str, Any]]:
    """Return the Cluster and the Secret with its registration token, with another endpoint if one is given."""
    results = [document for document in yaml.safe_load_all(_text("cluster.yaml")) if document]
    for document in results:
        if endpoint and document["kind"] == "Cluster":
            document["spec"]["controlPlaneEndpoint"] = endpoint
    return results


def pool_samples(*, claims: bool) -> list[dict[str, Any]]:
    """Return the pool with its profile, or the Nextclouds that claim from the full pool."""
    results = [document for document in yaml.safe_load_all(_text("pools.yaml")) if document]
    return [document for document in results if (document["kind"] == "Nextcloud") == claims]


def registration_token() -> str:
    """Return the token that the control plane knows."""
    [secret] = [document for document in cluster_samples() if document["kind"] == "Secret"]
    return str(secret["stringData"]["registrationToken"])


def pull_job() -> dict[str, Any]:
    """Return the payload of the job that installs an instance."""
    return {
        "intent": "ensure-application-instance",
        "namespace": NAMESPACE,
        "name": _BY_JOB,
        "spec": {
            "appRef": {"catalogId": _BY_JOB},
            "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": _BY_JOB, "version": "1.0.0"},
            "release": {"name": _BY_JOB, "namespace": NAMESPACE},
            "values": {"source": "inline", "inline": {"replicas": 1}},
        },
    }
