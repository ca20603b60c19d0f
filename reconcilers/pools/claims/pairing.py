"""Which waiting Nextcloud takes which idle instance: the older first. Pure.

Guarantees: `assignments` gives each instance to one claim at most and each claim one instance at most, so concurrent reconciles of
several claims do not compete. The oldest claims get the oldest instances. `candidates` is the view of one claim: the instances that the
claim may try to take now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias

from konverge.objects import Metadata
from konverge.reconcilers.pools.words import PoolsLabel

__all__ = [
    "Serves",
    "WaitingClaim",
    "assignments",
    "beginnings_of",
    "candidates",
    "in_order",
    "label_pair",
    "labels_of",
    "matches",
    "older_claims",
    "selector_key",
    "selectors_of",
]

_NOT_SELECTED: Final = frozenset(
    {PoolsLabel.ASSIGNED, PoolsLabel.CLAIM_UID, PoolsLabel.TENANT, PoolsLabel.NEXTCLOUD, PoolsLabel.FORCE_DELETE}
)
"""Labels that do not distinguish one idle instance from another."""


_BY_NAME: Final = attrgetter("name", "namespace")
_BY_AGE: Final = attrgetter("creation_timestamp", "name", "namespace")


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
    # Instances of a pool mostly have equal labels: only different labels cost calls of Python code.
    for labels in {tuple(sorted((instance.labels or {}).items())) for instance in instances}:
        pairs = sorted([label_pair(name, value) for name, value in labels])
        begun = [("", 0)]
        while begun:
            beginning, first = begun.pop()
            for place in range(first, len(pairs)):
                selector = f"{beginning},{pairs[place]}" if beginning else pairs[place]
                selectors.add(selector)
                if begins(selector):
                    begun.append((selector, place + 1))
    return frozenset(selectors)


def in_order(instances: Iterable[Metadata]) -> list[Metadata]:
    """Return idle instances in the order in which they are handed out: the oldest instance first, without a time before all others.

    >>> [instance.name for instance in in_order([Metadata(name="b", creation_timestamp="1"), Metadata(name="a", creation_timestamp="2")])]
    ['b', 'a']
    """
    groups: tuple[list[Metadata], list[Metadata]] = ([], [])
    for instance in instances:
        groups[bool(instance.creation_timestamp)].append(instance)
    return sorted(groups[0], key=_BY_NAME) + sorted(groups[1], key=_BY_AGE)


def assignments(
    claims: Iterable[WaitingClaim], instances: Iterable[Metadata], serves: Serves
) -> list[tuple[WaitingClaim, Metadata]]:
    """Return the claims in the order of their age, each with the oldest instance that is left, matches and may be taken.

    A claim that may not take an instance does not keep younger claims from it. Equal claims of a namespace share a search without result.
    """
    waiting = sorted(claims, key=attrgetter("created", "uid"))
    if not waiting:
        return []
    left = in_order(instances)
    pairs: list[tuple[WaitingClaim, Metadata]] = []
    unserved: set[tuple[str, str]] = set()
    for claim in waiting:
        if not left:
            break
        if (claim.selector, claim.namespace) in unserved:
            continue
        for place, instance in enumerate(left):
            if matches(claim.selector, instance) and serves(instance, claim.namespace):
                pairs.append((claim, left.pop(place)))
                break
        else:
            unserved.add((claim.selector, claim.namespace))
    return pairs


def older_claims(claim: WaitingClaim, line: Iterable[WaitingClaim]) -> list[WaitingClaim]:
    """Return the older claims of a line."""
    return [other for other in line if (other.created, other.uid) < (claim.created, claim.uid)]


def candidates(
    claim: WaitingClaim, line: Iterable[WaitingClaim], ready: Collection[Metadata], serves: Serves, *, first: str = ""
) -> Iterator[Metadata]:
    """Yield the instances that a claim may take, in their order: the ready instances that no older claim of the line takes.

    The instance of the UID `first` is yielded first, if it is among them. No more instances are examined than are consumed and than older
    claims take.

    >>> def instance(name: str) -> Metadata:
    ...     return Metadata(name=name, uid=name, labels={"tier": "small"})
    >>> old, young = (WaitingClaim(created, "uid", "ns", "name", "tier=small") for created in ("1", "2"))
    >>> [taken.name for taken in candidates(young, [old, young], [instance("a"), instance("b")], lambda *_: True)]
    ['b']
    """

    def serves_both(instance: Metadata, namespace: str) -> bool:
        return serves(instance, namespace) and fits(instance)

    def fits(instance: Metadata) -> bool:
        return matches(claim.selector, instance) and serves(instance, claim.namespace)

    reserved = {instance.uid for _, instance in assignments(older_claims(claim, line), ready, serves_both)}
    yield from [instance for instance in ready if instance.uid == first and first not in reserved and fits(instance)]
    for instance in in_order(ready):
        if instance.uid != first and instance.uid not in reserved and fits(instance):
            yield instance
