"""Which waiting Nextcloud takes which idle instance: the older first. Pure.

Guarantees: `assignments` gives each instance to one claim at most and each claim one instance at most, so concurrent reconciles of
several claims do not compete. The oldest claims get the oldest instances. `candidates` is the view of one claim: the instances that the
claim may try to take now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from konverge.objects import Metadata
from konverge.reconcilers.pools.words import PoolsLabel

__all__ = [
    "Serves",
    "WaitingClaim",
    "assignments",
    "beginnings_of",
    "candidates",
    "label_pair",
    "labels_of",
    "matches",
    "older_claims",
    "order_of",
    "selector_key",
    "selectors_of",
]

_NOT_SELECTED: Final = frozenset(
    {PoolsLabel.ASSIGNED, PoolsLabel.CLAIM_UID, PoolsLabel.TENANT, PoolsLabel.NEXTCLOUD, PoolsLabel.FORCE_DELETE}
)
"""Labels that do not distinguish one idle instance from another."""


Serves: TypeAlias = Callable[[Metadata, str], bool]
"""Whether the pool of an instance serves a namespace."""


@dataclass(frozen=True, slots=True)
class WaitingClaim:
    """A Nextcloud that waits for an instance of a pool."""

    created: str
    uid: str
    namespace: str
    name: str
    selector: str

    @classmethod
    def of(cls, nextcloud: Metadata, selector: str) -> WaitingClaim:
        """Return a Nextcloud as it waits for an instance."""
        return cls(nextcloud.creation_timestamp or "", nextcloud.uid, nextcloud.namespace, nextcloud.name, selector)


def label_pair(name: str, value: str) -> str:
    """Return one label as the indexes write it."""
    return f"{name}={value}"


def selector_key(labels: Mapping[str, str]) -> str:
    """Return a selector in one form.

    >>> selector_key({"b": "2", "a": "1"})
    'a=1,b=2'
    """
    return ",".join(sorted(label_pair(name, value) for name, value in labels.items()))


def labels_of(instance: Metadata) -> dict[str, str]:
    """Return the labels that distinguish an idle instance from others."""
    return {name: value for name, value in (instance.labels or {}).items() if name not in _NOT_SELECTED}


def matches(selector: str, instance: Metadata) -> bool:
    """Whether an instance has all labels of a selector."""
    labels = instance.labels or {}
    return all(labels.get(name) == value for name, _, value in (pair.partition("=") for pair in selector.split(",")))


def beginnings_of(selector: str) -> tuple[str, ...]:
    """Return the shorter selectors that a selector begins with.

    >>> beginnings_of("a=1,b=2,c=3")
    ('a=1', 'a=1,b=2')
    """
    pairs = selector.split(",")
    return tuple(",".join(pairs[:number]) for number in range(1, len(pairs)))


def selectors_of(instances: Iterable[Metadata], begins: Callable[[str], bool]) -> frozenset[str]:
    """Return selectors that include all selectors of waiting claims that match one of these instances; other claims do not compete.

    `begins` is True for a selector if the longer selector of a waiting claim begins with it. So an instance with many labels costs a lookup
    for each label and each such beginning, and not a lookup for each combination of labels.

    >>> sorted(selectors_of([Metadata(labels={"a": "1", "b": "2"})], lambda beginning: beginning in {"a=1", "c=3"}))
    ['a=1', 'a=1,b=2', 'b=2']
    """
    selectors: set[str] = set()
    for pairs in {
        tuple(sorted(label_pair(*label) for label in (instance.labels or {}).items())) for instance in instances
    }:
        begun = [("", 0)]
        while begun:
            beginning, first = begun.pop()
            for place in range(first, len(pairs)):
                selector = f"{beginning},{pairs[place]}" if beginning else pairs[place]
                selectors.add(selector)
                if begins(selector):
                    begun.append((selector, place + 1))
    return frozenset(selectors)


def order_of(instance: Metadata) -> tuple[str, str, str]:
    """Return the sort key of an idle instance: the oldest instance is handed out first."""
    return (instance.creation_timestamp or "", instance.name, instance.namespace)


def assignments(
    claims: Iterable[WaitingClaim], instances: Iterable[Metadata], serves: Serves
) -> list[tuple[WaitingClaim, Metadata]]:
    """Return the claims in the order of their age, each with the oldest instance that is left, matches and may be taken.

    A claim that may not take an instance does not keep younger claims from it.
    """
    left = sorted(instances, key=order_of)
    pairs: list[tuple[WaitingClaim, Metadata]] = []
    for claim in sorted(claims, key=lambda claim: (claim.created, claim.uid)):
        if not left:
            break
        for place, instance in enumerate(left):
            if matches(claim.selector, instance) and serves(instance, claim.namespace):
                pairs.append((claim, left.pop(place)))
                break
    return pairs


def older_claims(claim: WaitingClaim, line: Iterable[WaitingClaim]) -> list[WaitingClaim]:
    """Return the older claims of a line."""
    return [other for other in line if (other.created, other.uid) < (claim.created, claim.uid)]


def candidates(
    claim: WaitingClaim, line: Iterable[WaitingClaim], ready: Collection[Metadata], serves: Serves
) -> list[Metadata]:
    """Return the instances that a claim may take, in their order: the ready instances that no older claim of the line takes.

    >>> def instance(name: str) -> Metadata:
    ...     return Metadata(name=name, uid=name, labels={"tier": "small"})
    >>> old, young = (WaitingClaim(created, "uid", "ns", "name", "tier=small") for created in ("1", "2"))
    >>> [taken.name for taken in candidates(young, [old, young], [instance("a"), instance("b")], lambda *_: True)]
    ['b']
    """
    own = [instance for instance in ready if matches(claim.selector, instance) and serves(instance, claim.namespace)]
    reserved = {instance.uid for _, instance in assignments(older_claims(claim, line), own, serves)}
    return [instance for instance in sorted(own, key=order_of) if instance.uid not in reserved]
