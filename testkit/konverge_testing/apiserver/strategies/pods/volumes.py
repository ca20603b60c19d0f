"""The rules of the volumes of a pod.

Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import quote
from konverge_testing.apiserver.strategies.errors import Data, Errors, duplicate, forbidden, invalid, required
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods.projected import downward, files, projected_errors
from konverge_testing.apiserver.strategies.pods.sources import VENDORS
from konverge_testing.apiserver.strategies.rules import Rule, among, at, need, struct, text, when

__all__ = ["host_path", "pull_policies", "volume_errors"]

_ORDER: Final = (
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker "
    "persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume "
    "photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image"
)
_name: Final = need("name", text(names.dns1123_label))
_ODD_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_host_types: Final = among(
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
)
pull_policies: Final = among("Always", "IfNotPresent", "Never")

host_path: Final = struct(
    need("path", no_backsteps),
    when(lambda source: source.get("path"), at("type", _host_types)),
)
"""The rules of a path of the node."""


def volume_errors(volumes: list[Data], path: str, *, pod: str | None = None) -> tuple[Errors, dict[str, Data]]:
    """Check the volumes of a pod, or (None) of a template; return the errors, and the valid volumes by their names."""
    errors: Errors = []
    valid: dict[str, Data] = {}
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name", "")
        own = _source_errors(volume, here, pod) + _name(volume, here)
        if name in valid:
            own.append(duplicate(f"{here}.name", name))
        if not own:
            valid[name] = volume
        errors += own
    return errors, valid


def _source_errors(volume: Data, path: str, pod: str | None) -> Errors:
    kinds = [kind for kind in _ORDER.split() if kind in volume]
    if not kinds:
        return [required(path, "must specify a volume type")]
    errors = _CHECKS[kinds[0]](volume[kinds[0]], f"{path}.{kinds[0]}")
    if kinds[0] == "image" and pod is not None:
        errors = need("reference")(volume["image"], f"{path}.image") + errors
    elif kinds[0] == "ephemeral" and pod and (name := volume.get("name")):
        claim = f"{pod}-{name}"
        words = names.dns1123_subdomain(claim)
        errors += [invalid(f"{path}.name", name, f"PVC name {quote(claim)}: {word}") for word in words]
    others = [_ODD_NAMES.get(kind, kind) for kind in kinds[1:]]
    return errors + [forbidden(f"{path}.{kind}", "may not specify more than 1 volume type") for kind in others]


def _empty_dir(source: Data, path: str) -> Errors:
    size = source.get("sizeLimit")
    if size is None or Quantity.parse(size).billionths >= 0:
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


_CHECKS: Final[Mapping[str, Rule]] = {
    **VENDORS,
    "configMap": struct(need("name"), files),
    "downwardAPI": downward,
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "image": at("pullPolicy", pull_policies),
    "persistentVolumeClaim": need("claimName"),
    "projected": projected_errors,
    "secret": struct(need("secretName"), files),
}
