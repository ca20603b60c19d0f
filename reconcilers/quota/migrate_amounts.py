"""How much each namespace claims of a pool that takes the place of a tenant's quota: pure arithmetic.

Guarantees: without headroom a namespace claims exactly its use; with headroom its use and that part more, rounded up to common units: whole
pieces, thousandths of a core, mebibytes. If that would exceed the pool, the headroom of all namespaces shrinks alike, and no claim is
smaller than the use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from konverge.quantities import THOUSANDTH, WHOLE, ZERO, Amounts, Quantity, non_zero
from konverge.reconcilers.quota.amounts import is_counted

__all__ = ["Shares", "class_of", "shared_out"]

_MEBI = 2**20 * WHOLE


@dataclass(frozen=True, slots=True)
class Shares:
    """The claimed amounts by namespace, without zeros, and notes for the operator."""

    amounts: Mapping[str, Amounts]
    notes: tuple[str, ...]


def class_of(resources: Iterable[str]) -> str:
    """Return the class of a quota's resources: compute, storage or size (counted objects); "" if they are mixed or missing.

    >>> class_of(["limits.cpu", "requests.memory"]), class_of(["pods"]), class_of(["requests.storage"]), class_of(["pods", "cpu"])
    ('compute', 'size', 'storage', '')
    """
    classes = {_class(resource) for resource in resources}
    return classes.pop() if len(classes) == 1 else ""


def _class(resource: str) -> str:
    if resource.endswith(("requests.storage", "persistentvolumeclaims")):
        return "storage"
    return "size" if is_counted(resource) else "compute"


def shared_out(hard: Amounts, uses: Mapping[str, Amounts], headroom: Fraction) -> Shares:
    """Share out a pool among namespaces by their use."""
    by_namespace: dict[str, dict[str, Quantity]] = {namespace: {} for namespace in uses}
    notes: list[str] = []
    for resource, limit in hard.items():
        used = {namespace: amounts.get(resource, ZERO) for namespace, amounts in uses.items()}
        shares, note = _shared(resource, limit, used, headroom)
        notes += [f"{resource}: {note}"] if note else []
        for namespace, share in shares.items():
            by_namespace[namespace][resource] = share
    return Shares({namespace: non_zero(amounts) for namespace, amounts in by_namespace.items()}, tuple(notes))


def _shared(
    resource: str, limit: Quantity, used: Mapping[str, Quantity], headroom: Fraction
) -> tuple[Mapping[str, Quantity], str]:
    total = sum(amount.billionths for amount in used.values())
    room = limit.billionths - total
    if room < 0:
        return used, (
            f"{Quantity(total, limit.format)} is used where hard is {limit}; the claims that do not fit will wait, so raise hard "
            "before you remove the old quotas"
        )
    if not headroom:
        return used, ""
    wanted = {name: _rounded(resource, amount, 1 + headroom, limit, up=True) for name, amount in used.items()}
    if sum(amount.billionths for amount in wanted.values()) <= limit.billionths:
        return wanted, ""
    part = min(headroom, Fraction(room, total))
    fitting = {name: _rounded(resource, amount, 1 + part, limit, up=False) for name, amount in used.items()}
    return fitting, f"headroom of {float(100 * headroom):g} % is more than hard ({limit}) has room for; it is less"


def _rounded(resource: str, used: Quantity, times: Fraction, limit: Quantity, *, up: bool) -> Quantity:
    """Return a multiple of the use, rounded to a common unit and never below the use."""
    unit = _unit(resource, used)
    parts = times * used.billionths / unit
    rounded = max((ceil(parts) if up else floor(parts)) * unit, used.billionths)
    return used if rounded == used.billionths else Quantity(rounded, limit.format)


def _unit(resource: str, used: Quantity) -> int:
    if resource.endswith("cpu"):
        return THOUSANDTH
    return _MEBI if not is_counted(resource) and used.billionths >= _MEBI else WHOLE
