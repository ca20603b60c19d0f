"""The rules of references of environment variables and volumes to fields and resources of their own pod (downward API).

Source: `pkg/apis/core/validation/validation.go` (validateObjectFieldSelector,
validateContainerResourceFieldSelector), `pkg/apis/core/pods/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.errors import Data, Errors, invalid, not_supported, required

__all__ = ["ENV_FIELDS", "VOLUME_FIELDS", "field_errors", "resource_errors"]

VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
"""The fields that a file of a volume may show."""

ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""The fields that an environment variable may show."""

_KNOWN: Final = {*VOLUME_FIELDS, *ENV_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_SUBSCRIPTED: Final = ("metadata.annotations", "metadata.labels")
_COMPUTE: Final = ("cpu", "ephemeral-storage", "memory")
_RESOURCES: Final = tuple(f"{kind}.{name}" for kind in ("limits", "requests") for name in _COMPUTE)
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS: Final = {
    "cpu": (("1m", "1"), "1m and 1 are supported with the cpu resource"),
    **{
        name: (_BYTES, f"{', '.join(_BYTES)} are supported with the {words} resource")
        for name, words in (("memory", "memory"), ("ephemeral-storage", "local ephemeral storage"), ("", "hugepages"))
    },
}
"""By resource, "" for huge pages: the divisors, and their text in messages."""


def field_errors(reference: Data, path: str, allowed: Collection[str]) -> Errors:
    """Check a reference to a field."""
    wanted, version = reference.get("fieldPath", ""), reference.get("apiVersion", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not wanted:
        return [required(f"{path}.fieldPath")]
    field, subscript = _split(wanted)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript is not None and field not in _SUBSCRIPTED:
        problem = f"field label does not support subscript: {wanted}"
    elif subscript is None and wanted not in _KNOWN and wanted != "spec.host":
        problem = f"field label not supported: {wanted}"
    if problem:
        return [invalid(f"{path}.fieldPath", wanted, f"error converting fieldPath: {problem}")]
    if subscript is not None:
        key = subscript.lower() if field == _SUBSCRIPTED[0] else subscript
        return [invalid(path, key, message) for message in names.label_key(key)]
    field = "spec.nodeName" if wanted == "spec.host" else wanted
    return [] if field in allowed else [not_supported(f"{path}.fieldPath", field, allowed)]


def _split(wanted: str) -> tuple[str, str | None]:
    """Return the path and the subscript of `path['subscript']`."""
    field, bracket, rest = wanted.partition("['")
    return (field, rest.removesuffix("']")) if bracket and rest.endswith("']") else (wanted, None)


def resource_errors(reference: Data, path: str, *, volume: bool = False) -> Errors:
    """Check a reference to a resource of a container; in a volume, the reference must name the container."""
    wanted = reference.get("resource", "")
    errors: Errors = []
    if volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not wanted:
        errors.append(required(f"{path}.resource"))
    elif wanted not in _RESOURCES and not wanted.startswith(_PAGES):
        errors.append(not_supported(f"{path}.resource", wanted, _RESOURCES))
    divisor = Quantity.parse(reference.get("divisor") or "0")
    known = wanted in _RESOURCES or wanted.startswith(_PAGES)
    allowed, words = _DIVISORS["" if wanted.startswith(_PAGES) else wanted.partition(".")[2]] if known else ((), "")
    if known and divisor.billionths and str(divisor) not in allowed:
        errors.append(invalid(f"{path}.divisor", wanted, f"only divisor's values {words}"))
    return errors
