"""Validation of the spec of a claim: that of a PersistentVolumeClaim, and those of templates in pods and in StatefulSets.

Guarantees: pure. Left out: data sources. Source: `pkg/apis/core/validation/validation.go` (ValidatePersistentVolumeClaimSpec).
"""

from __future__ import annotations

from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    forbidden,
    invalid,
    not_supported,
    required,
    selector_errors,
    text_errors,
)

__all__ = ["ACCESS_MODES", "VOLUME_MODES", "access_errors", "claim_spec_errors"]

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")


def claim_spec_errors(spec: Data, path: str) -> Errors:
    """Check the spec of a claim."""
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += selector_errors(spec.get("selector"), f"{path}.selector") + access_errors(modes, f"{path}.accessModes")
    size, where = ((spec.get("resources") or {}).get("requests") or {}).get("storage"), f"{path}.resources[storage]"
    if size is None:
        errors.append(required(where))
    elif Quantity.parse(size).billionths <= 0:
        errors.append(invalid(where, size, "must be greater than zero"))
    else:
        errors += amount_errors("storage", size, where)
    for name in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(name):
            errors += text_errors(f"{path}.{name}", spec[name], names.dns1123_subdomain)
    if spec.get("volumeMode") not in (None, *VOLUME_MODES):
        errors.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES))
    return errors


def access_errors(modes: list[str], path: str) -> Errors:
    """Check the ways in which a volume is to be reached."""
    errors: Errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and set(modes) & set(ACCESS_MODES[:3]):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors
