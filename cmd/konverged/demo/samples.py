"""The samples of `konverge demo`: one ApplicationInstance of every mode, kind of source and kind of values, with its expected condition."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import yaml

__all__ = ["EXPECTED", "NAMESPACE", "Expected", "hint", "samples"]

NAMESPACE: Final = "demo"


class Expected(NamedTuple):
    """Expected status and reason of a sample's condition Ready."""

    status: str
    reason: str


EXPECTED: Final = {
    "shop": Expected("True", "HelmReleaseReady"),
    "wiki": Expected("True", "HelmReleaseReady"),
    "blog": Expected("True", "HelmReleaseReady"),
    "mail": Expected("True", "Placeholder"),
    "chat": Expected("False", "WaitingForSecret"),
}

_SAMPLES: Final = """
# A chart from a chart repository, values in the object itself.
apiVersion: apps.vworkspace.io/v1alpha1
kind: ApplicationInstance
metadata: {name: shop}
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
metadata: {name: wiki}
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
metadata: {name: blog}
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
    """Return the objects, in the order in which they are applied."""
    found = [document for document in yaml.safe_load_all(_SAMPLES) if document]
    for document in found:
        document["metadata"]["namespace"] = NAMESPACE
    return found
