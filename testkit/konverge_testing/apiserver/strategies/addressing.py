"""IPAddress and ServiceCIDR: the addresses of Services as objects, and the ranges that they come from.

Source: `pkg/apis/networking/validation/validation.go`, `pkg/registry/networking/{ipaddress,servicecidr}/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.addresses import cidr_errors, network
from konverge_testing.apiserver.strategies.base import (
    IMMUTABLE,
    BuiltInStrategy,
    Data,
    Errors,
    invalid,
    required,
    restore_metadata,
    text_errors,
)

__all__ = ["IPAddress", "ServiceCIDR"]

_ONE_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


class IPAddress(BuiltInStrategy):
    """An address that an object of the cluster has taken."""

    name_rule = "ip"

    def _errors(self, new: Data, old: Data | None) -> Errors:
        parent = (new.get("spec") or {}).get("parentRef")
        errors = _parent_errors(parent)
        before = ((old or {}).get("spec") or {}).get("parentRef")
        if old is not None and parent != before:
            errors.append(invalid("spec.parentRef", _shown(parent), IMMUTABLE))
        return errors


def _shown(parent: Data | None) -> Struct | None:
    if parent is None:
        return None
    return Struct({name.capitalize(): parent.get(name, "") for name in ("group", "resource", "namespace", "name")})


def _parent_errors(parent: Data | None) -> Errors:
    if parent is None:
        return [required("spec.parentRef")]
    path = "spec.parentRef"
    errors = text_errors(f"{path}.group", parent["group"], names.dns1123_subdomain) if parent.get("group") else []
    for name in ("resource", "name"):
        if not parent.get(name):
            errors.append(required(f"{path}.{name}"))
        else:
            errors += text_errors(f"{path}.{name}", parent[name], names.path_segment)
    if parent.get("namespace"):
        errors += text_errors(f"{path}.namespace", parent["namespace"], names.path_segment)
    return errors


class ServiceCIDR(BuiltInStrategy):
    """Ranges of addresses for Services."""

    has_status = True
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("metadata",), ("spec",)),
    }

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore_metadata(new, old)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        ranges = (new.get("spec") or {}).get("cidrs") or []
        if old is None:
            return _range_errors(ranges)
        before = (old.get("spec") or {}).get("cidrs") or []
        if len(ranges) == len(before):
            pairs = enumerate(zip(ranges, before, strict=True))
            return [invalid(f"spec.cidrs[{index}]", now, IMMUTABLE) for index, (now, then) in pairs if now != then]
        if (len(before), len(ranges)) != (1, 2):
            return [invalid("spec.cidrs", ranges or None, IMMUTABLE)]
        first = [invalid("spec.cidrs[0]", ranges[0], IMMUTABLE)] if ranges[0] != before[0] else []
        return first + _range_errors(ranges)


def _range_errors(ranges: list[str]) -> Errors:
    path = "spec.cidrs"
    if not ranges:
        return [required(path, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid(path, {"CIDRs": ranges}, "may only hold up to 2 values")]
    errors = [error for index, each in enumerate(ranges) for error in cidr_errors(each, f"{path}[{index}]")]
    known = [found.version for each in ranges if (found := network(each)) is not None]
    if len(known) == 2 and known[0] == known[1]:
        errors.append(invalid(path, ranges, _ONE_EACH))
    return errors
