"""The kinds of others that the apps family reads and writes, as data.

The HelmRelease is `v2`, the only version that Flux serves since 2.5; sources are `v1` (fluxcd/helm-controller api/v2,
fluxcd/source-controller api/v1). Plurals are declared so that RBAC rules can be printed without a cluster.
"""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind

__all__ = ["CONFIG_MAP", "HELM_CHART", "HELM_RELEASE", "HELM_REPOSITORY", "NAMESPACE", "OCI_REPOSITORY", "SECRET"]

HELM_RELEASE: Final = kind("helm.toolkit.fluxcd.io/v2", "HelmRelease", namespaced=True, plural="helmreleases")
HELM_REPOSITORY: Final = kind(
    "source.toolkit.fluxcd.io/v1", "HelmRepository", namespaced=True, plural="helmrepositories"
)
OCI_REPOSITORY: Final = kind("source.toolkit.fluxcd.io/v1", "OCIRepository", namespaced=True, plural="ocirepositories")
HELM_CHART: Final = kind("source.toolkit.fluxcd.io/v1", "HelmChart", namespaced=True, plural="helmcharts")
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
