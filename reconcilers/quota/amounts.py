"""Amounts of resources, as integers of billionths by resource name, and their text form.

Guarantees: exact; two spellings of one amount are equal (`1000m` is `1`). `show` formats like the pool's hard for that resource, so the
text does not depend on the order of additions (docs/reference/capsule.md#allocation). `problem_in` returns why a claim can never be part of
a ResourceQuota: negative amounts, fractions of countable resources (kubernetes `pkg/apis/core/validation`, `pkg/apis/core/v1/helper`), and
amounts beyond what a status can show. Amounts that were stored before that rule existed are clamped by `bounded` when they are read, so
their text is never longer than the API accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from konverge.crds.quota_v1beta2 import MAX_RESOURCES, MOST
from konverge.quantities import COUNTED, WHOLE, Format, Quantity

__all__ = ["Amounts", "add", "bounded", "is_counted", "problem_in", "show", "written"]

Amounts: TypeAlias = dict[str, int]
"""Billionths by resource."""
_LARGEST = MOST * WHOLE
_BEYOND = 2 * _LARGEST
_BEYOND_SUFFIXES = 10**21 * WHOLE
_MOST_BINARY = (2**63 - 1) * WHOLE


def show(resource: str, amount: int, hard: Mapping[str, Quantity], wanted_format: Format | None = None) -> str:
    """Format an amount like the pool's hard, or in the wished format; a resource without either is formatted as DecimalSI.

    >>> show("memory", 640 * 2**20 * WHOLE, {"memory": Quantity.parse("2Gi")})
    '640Mi'
    """
    quantity = hard.get(resource)
    return _written(amount, wanted_format or (quantity.format if quantity is not None else "DecimalSI"))


def written(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    """Format each amount in its own format.

    >>> written({"memory": Quantity.parse("1000E")})
    {'memory': '1e21'}
    """
    return {name: _written(quantity.billionths, quantity.format) for name, quantity in sorted(quantities.items())}


@lru_cache(maxsize=4096)
def _written(amount: int, format_: Format) -> str:
    # A BinarySI quantity above 2^63 - 1 parses as 2^63 - 1, and the API server prints a DecimalSI multiple of 10^21 without its factor.
    if format_ == "BinarySI" and amount > _MOST_BINARY:
        format_ = "DecimalSI"
    if format_ == "DecimalSI" and amount and amount % _BEYOND_SUFFIXES == 0:
        format_ = "DecimalExponent"
    return str(Quantity(amount, format_))


def bounded(quantity: Quantity) -> Quantity:
    """Clamp a quantity to what a status can show: twice the largest amount that a claim may request.

    >>> str(bounded(Quantity.parse("1e400"))), str(bounded(Quantity.parse("2Gi")))
    ('2e24', '2Gi')
    """
    if abs(quantity.billionths) <= _BEYOND:
        return quantity
    return Quantity(_BEYOND if quantity.billionths > 0 else -_BEYOND, quantity.format)


def add(into: Amounts, more: Mapping[str, int]) -> None:
    """Add amounts to others, in place."""
    for resource, amount in more.items():
        into[resource] = into.get(resource, 0) + amount


def is_counted(resource: str) -> bool:
    """Whether a resource is counted in whole pieces: objects by kind, extended resources, and `count/` resources.

    >>> [is_counted(name) for name in ("pods", "count/jobs.batch", "cpu", "requests.example.com/gpu")]
    [True, True, False, False]
    """
    extended = "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")
    return resource in COUNTED or extended


def problem_in(claim: Mapping[str, int]) -> str:
    """Return why a claim cannot have these amounts, sorted by resource; "" if it can.

    >>> problem_in({"pods": 1500000000})
    'pods: must be a whole number'
    """
    return "; ".join(_problems(claim))


def _problems(claim: Mapping[str, int]) -> Iterable[str]:
    if len(claim) > MAX_RESOURCES:
        yield f"{len(claim)} resources: must be at most {MAX_RESOURCES}"
    for resource in sorted(claim):
        amount = claim[resource]
        if amount < 0:
            yield f"{resource}: must not be negative"
        elif amount > _LARGEST:
            yield f"{resource}: must be at most 1e24"
        elif is_counted(resource) and amount % WHOLE:
            yield f"{resource}: must be a whole number"
