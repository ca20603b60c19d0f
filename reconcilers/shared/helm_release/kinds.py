"""The kinds of Flux that install a chart.

The HelmRelease is `v2`, the only version that Flux serves since 2.5; sources are `v1` (fluxcd/helm-controller api/v2,
fluxcd/source-controller api/v1). Plurals are declared so that RBAC rules can be printed without a cluster.
"""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind

__all__ = ["HELM_CHART", "HELM_RELEASE", "HELM_REPOSITORY", "OCI_REPOSITORY"]

HELM_RELEASE: Final = kind("helm.toolkit.fluxcd.io/v2", "HelmRelease", namespaced=True, plural="helmreleases")
HELM_REPOSITORY: Final = kind(
    "source.toolkit.fluxcd.io/v1", "HelmRepository", namespaced=True, plural="helmrepositories"
)
OCI_REPOSITORY: Final = kind("source.toolkit.fluxcd.io/v1", "OCIRepository", namespaced=True, plural="ocirepositories")
HELM_CHART: Final = kind("source.toolkit.fluxcd.io/v1", "HelmChart", namespaced=True, plural="helmcharts")
