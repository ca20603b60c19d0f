"""The kinds that the family reads and writes, as thin views: an object that does not fit its model is still seen."""

from __future__ import annotations

from typing import Final

from konverge.crds.pools_v1alpha1 import GROUP
from konverge.kinds import kind

__all__ = ["CONFIG_MAP", "INSTANCE", "NAMESPACE", "NEXTCLOUD", "POOL", "PROFILE", "SECRET", "VOLUME_CLAIM"]

_VERSION: Final = f"{GROUP}/v1alpha1"

NEXTCLOUD: Final = kind(_VERSION, "Nextcloud", namespaced=True, plural="nextclouds")
INSTANCE: Final = kind(_VERSION, "NextcloudInstance", namespaced=True, plural="nextcloudinstances")
POOL: Final = kind(_VERSION, "NextcloudPool", namespaced=False, plural="nextcloudpools")
PROFILE: Final = kind(_VERSION, "NextcloudProfile", namespaced=False, plural="nextcloudprofiles")

CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
VOLUME_CLAIM: Final = kind("v1", "PersistentVolumeClaim", namespaced=True, plural="persistentvolumeclaims")
