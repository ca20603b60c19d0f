"""The rules of the spec of a claim: of a PersistentVolumeClaim, and of the templates in pods and in StatefulSets.

Left out: data sources. Source: `pkg/apis/core/validation/validation.go` (ValidatePersistentVolumeClaimSpec).
"""

from __future__ import annotations

from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import value_at
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_supported, required
from konverge_testing.apiserver.strategies.labels import selector_errors
from konverge_testing.apiserver.strategies.rules import among, at, filled, given, need, struct, text

__all__ = ["access_errors", "claim_spec_errors", "volume_mode"]

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
volume_mode: Final = among("Block", "Filesystem")


def access_errors(modes: list[str] | None, path: str) -> Errors:
    """Check the access modes of a volume."""
    wanted = modes or []
    errors = [not_supported(path, mode, _ACCESS_MODES) for mode in wanted if mode not in _ACCESS_MODES]
    if "ReadWriteOncePod" in wanted and set(wanted) & set(_ACCESS_MODES[:3]):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def _size(spec: Data, path: str) -> Errors:
    size, where = value_at(spec, "resources.requests.storage"), f"{path}.resources[storage]"
    if size is None:
        return [required(where)]
    if Quantity.parse(size).billionths <= 0:
        return [invalid(where, size, "must be greater than zero")]
    return amount_errors("storage", size, where)


claim_spec_errors: Final = struct(
    need("accessModes", detail="at least 1 access mode is required"),
    given("selector", selector_errors),
    at("accessModes", access_errors),
    _size,
    filled("storageClassName volumeAttributesClassName", text(names.dns1123_subdomain)),
    given("volumeMode", volume_mode),
)
