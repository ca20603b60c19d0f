"""Amounts of resources: whole numbers of billionths by the name of the resource, and how they are shown.

Promises: exact; two spellings of one amount are one amount (`1000m` is `1`). `show` prints in the format of the pool's hard for that
resource, whatever was added in which order (quota.md 6.4). `problem_of` says why a claim can never be part of a ResourceQuota: amounts
below zero, and fractions of what is counted in pieces (kubernetes `pkg/apis/core/validation`, `pkg/apis/core/v1/helper`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from konverge.quantities import COUNTED, WHOLE, Format, Quantity

__all__ = ["Amounts", "add", "in_pieces", "problem_of", "show"]

Amounts: TypeAlias = dict[str, int]
"""Billionths by resource."""


def show(resource: str, amount: int, hard: Mapping[str, Quantity]) -> str:
    """Write an amount in the format of the pool's hard; a resource that it lacks is written in decimals.

    >>> show("memory", 640 * 2**20 * WHOLE, {"memory": Quantity.parse("2Gi")})
    '640Mi'
    """
    kept = hard.get(resource)
    return _written(amount, kept.format if kept is not None else "DecimalSI")


@lru_cache(maxsize=4096)
def _written(amount: int, format_: Format) -> str:
    return str(Quantity(amount, format_))


def add(into: Amounts, more: Mapping[str, int]) -> None:
    """Add amounts to others, in place."""
    for resource, amount in more.items():
        into[resource] = into.get(resource, 0) + amount


def in_pieces(resource: str) -> bool:
    """Tell whether a resource is counted in whole pieces: objects by their kind, and whatever a device plugin or `count/` names.

    >>> [in_pieces(name) for name in ("pods", "count/jobs.batch", "cpu", "requests.example.com/gpu")]
    [True, True, False, False]
    """
    named = "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")
    return resource in COUNTED or named


def problem_of(claim: Mapping[str, int]) -> str:
    """Return why these amounts can be no claim, "" where they can; parts are sorted.

    >>> problem_of({"pods": 1500000000})
    'pods: must be a whole number'
    """
    return "; ".join(_problems(claim))


def _problems(claim: Mapping[str, int]) -> Iterable[str]:
    for resource in sorted(claim):
        amount = claim[resource]
        if amount < 0:
            yield f"{resource}: must not be negative"
        elif in_pieces(resource) and amount % WHOLE:
            yield f"{resource}: must be a whole number"
