"""The kinds of others that the apps family reads and writes, as data."""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

__all__ = [
    "CONFIG_MAP",
    "HELM_CHART",
    "HELM_RELEASE",
    "HELM_REPOSITORY",
    "NAMESPACE",
    "OCI_REPOSITORY",
    "SECRET",
    "SERVICE_ACCOUNT",
]

SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
SERVICE_ACCOUNT: Final = kind("v1", "ServiceAccount", namespaced=True, plural="serviceaccounts")
