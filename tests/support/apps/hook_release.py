"""A deployed release with Helm's record of it: hooks for the engine helmHookJob."""

import base64
import gzip
import json
from typing import Any

from konverge.kinds import kind
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge_testing import Lab, install_crds
from konverge_testing.flux import flux_crds

SECRET = kind("v1", "Secret", namespaced=True, plural="secrets")
MIGRATE = """
apiVersion: batch/v1
kind: Job
metadata:
  name: shop-migrate
  labels: {app: shop, job-name: shop-migrate}
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: hook-succeeded, note: kept}
spec:
  backoffLimit: 2
  selector: {matchLabels: {controller-uid: "1"}}
  manualSelector: true
  template:
    metadata:
      labels: {controller-uid: "1", app: shop}
    spec:
      restartPolicy: Never
      containers:
        - name: migrate
          image: shop:1.0.0
          env: [{name: PASSWORD, value: hunter2}]
"""
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13))
"""A few hundred characters that name 10^12 values."""
HOOKS: list[dict[str, Any]] = [
    {"name": "shop-migrate", "kind": "Job", "manifest": MIGRATE, "events": ["pre-upgrade"]},
    {"name": "shop-config", "kind": "ConfigMap", "manifest": "kind: ConfigMap"},
    {"name": "broken", "kind": "Job", "manifest": "a: *hunter2"},
    {"name": "laughs", "kind": "Job", "manifest": f"{MIGRATE}{LAUGHS}"},
    {"name": "cycle", "kind": "Job", "manifest": f"{MIGRATE}a: &a [*a]"},
    {"name": "deep", "kind": "Job", "manifest": "[" * 5000},
    {"name": "elsewhere", "kind": "Job", "manifest": MIGRATE.replace("metadata:\n", "metadata:\n  namespace: x\n", 1)},
]


def record(hooks: list[dict[str, Any]], *, packed: bool = True) -> str:
    text = json.dumps({"hooks": hooks, "config": {"password": "hunter2"}}).encode()
    return base64.b64encode(base64.b64encode(gzip.compress(text) if packed else text)).decode()


async def deploy(lab: Lab, *, deployed: str = "deployed", secret: str | None = "") -> None:
    """Create the HelmRelease `shop` as Flux leaves it, and the Secret with its record; None: without the Secret."""
    await install_crds(lab.client, flux_crds())
    release = await lab.create(
        HELM_RELEASE.new(
            "shop", lab.namespace, spec={"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "shop"}}
        )
    )
    history = [
        {
            "name": "shop",
            "namespace": lab.namespace,
            "version": 3,
            "status": deployed,
            "chartName": "shop",
            "chartVersion": "1.0.0",
            "configDigest": "x",
            "digest": "x",
            "firstDeployed": "2030-01-01T00:00:00Z",
            "lastDeployed": "2030-01-01T00:00:00Z",
        }
    ]
    await lab.patch(
        HELM_RELEASE,
        release.name,
        {"status": {"history": history, "storageNamespace": lab.namespace}},
        subresource="status",
    )
    if secret is not None:
        data = {"release": base64.b64encode(secret.encode()).decode() if secret else record(HOOKS)}
        await lab.create(SECRET.new("sh.helm.release.v1.shop.v3", lab.namespace, type="helm.sh/release.v1", data=data))
