"""Parsing of stored objects into the views of `views`, tolerant of invalid content that bypassed validation.

Guarantees: pure; never raises for stored content. An invalid quantity in a claim becomes the claim's `problem`, and is ignored elsewhere: a
damaged status counts as never written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from konverge.conditions import Condition, read_conditions
from konverge.crds.quota_v1beta2 import LabelSelector, ResourcePool, ResourcePoolStatus
from konverge.objects import Metadata, Object
from konverge.quantities import Quantity
from konverge.reconcilers.quota.amounts import Amounts, bounded, problem_in
from konverge.reconcilers.quota.claims.conditions import read
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, Offer, PoolRecord, PoolView, QuotaView
from konverge.reconcilers.quota.words import QuotaAnnotation, QuotaLabel, Semantics

__all__ = [
    "PoolFacts",
    "RecordMemo",
    "claim_view",
    "pool_facts",
    "pool_named_in",
    "pool_references",
    "pool_view",
    "pools_of",
    "quota_view",
    "record_in",
    "scopes_of",
    "selectors_of",
]


def _amounts(values: Any) -> tuple[Amounts, str]:
    """Return the valid amounts, and the problems of the invalid amounts."""
    amounts: Amounts = {}
    wrong = []
    for name, value in sorted((values if isinstance(values, Mapping) else {}).items()):
        try:
            amounts[name] = bounded(Quantity.parse(value)).billionths
        except ValueError as error:
            wrong.append(f"{name}: {error}")
    return amounts, "; ".join(wrong)


def _quantities(values: Any) -> dict[str, Quantity]:
    quantities = {}
    for name, value in (values if isinstance(values, Mapping) else {}).items():
        try:
            quantities[name] = bounded(Quantity.parse(value))
        except ValueError:
            continue
    return quantities


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def claim_view(claim: Object) -> ClaimView:
    """Return the view of a claim."""
    metadata = claim.metadata
    requested = claim.get("spec", "claim")
    amounts, unreadable = _amounts(requested)
    semantics = Semantics.V014 if claim.get("status", "semantics") == Semantics.V014 else Semantics.V012
    conditions: tuple[Condition, ...] = ()
    if semantics == Semantics.V014:
        conditions = read_conditions(claim.get("status", "conditions"))
        condition, in_use = read(conditions)
    else:
        stored = claim.get("status", "condition")
        condition = Condition.lenient(stored) if isinstance(stored, Mapping) and stored.get("type") else None
        in_use = False
    has_stale_conditions = semantics == Semantics.V012 and bool(claim.get("status", "conditions"))
    return ClaimView(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.creation_timestamp or "",
        generation=metadata.generation,
        pool=pool_named_in(claim),
        amounts=amounts,
        formats={name: quantity.format for name, quantity in _quantities(requested).items()},
        problem=unreadable or problem_in(amounts),
        release=metadata.annotation(QuotaAnnotation.RELEASE).lower() == QuotaAnnotation.RELEASE_WANTED,
        deleting=metadata.deleting,
        assigned=(_text(claim.get("status", "pool", "name")), _text(claim.get("status", "pool", "uid"))),
        queue=(_text(claim.get("status", "queue", "name")), _text(claim.get("status", "queue", "uid"))),
        condition=condition,
        conditions=conditions,
        semantics=semantics,
        has_stale_conditions=has_stale_conditions,
        in_use=in_use,
    )


def pool_named_in(claim: Object) -> str:
    """Return the pool that a claim names, "" if it names none."""
    return _text(claim.get("spec", "pool"))


_POOLS = (("spec", "pool"), ("status", "pool", "name"), ("status", "queue", "name"))


def pools_of(claim: Object) -> tuple[str, ...]:
    """Return the names of the pools that a claim refers to in spec and status."""
    names = (_text(claim.get(*path)) for path in _POOLS)
    return tuple(sorted({name for name in names if name}))


def pool_view(pool: ResourcePool) -> PoolView:
    """Return the view of a pool."""
    config = pool.spec.config
    return PoolView(
        name=pool.name,
        uid=pool.uid,
        hard=_quantities(pool.spec.quota.hard),
        defaults=_quantities(pool.spec.defaults),
        zero=config.defaults_zero,
        ordered=config.ordered_queue,
    )


def record_in(status: ResourcePoolStatus, before: RecordMemo | None = None) -> PoolRecord:
    """Return the record in the status of a pool; the entries of namespaces that are as `before` are the same objects."""
    memo = RecordMemo() if before is None else before
    raw = status.claims.raw
    readable = memo.read(raw)
    claims = memo.claims if readable else {}
    releasing = {namespace: _amounts(amounts)[0] for namespace, amounts in status.releasing.items()}
    return PoolRecord(
        claims=claims,
        releasing={namespace: amounts for namespace, amounts in releasing.items() if amounts},
        # Every reconcile writes allocation.hard and the number of listed claims, so a status without them was damaged or never written.
        lost=not status.allocation.hard or not readable or status.claim_count != sum(map(len, claims.values())),
    )


class RecordMemo:
    """The list of claims that was read last from the status of a pool: most of its namespaces are as they were."""

    def __init__(self) -> None:
        self._raw: Mapping[str, Any] = {}
        self._amounts: dict[tuple[tuple[str, Any], ...], Amounts] = {}  # thousands of claims request the same
        self.claims: dict[str, tuple[AllocatedClaim, ...]] = {}
        """By namespace."""

    def read(self, raw: Mapping[str, Any]) -> bool:
        """Read a list, and return whether it is readable."""
        before, known = self._raw, self.claims
        if raw is before:
            return True
        self._raw = {}
        try:
            self.claims = {
                namespace: known[namespace] if before.get(namespace) == entries else self._entries(entries)
                for namespace, entries in raw.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            self.claims = {}
            return False
        self._raw = raw
        return True

    def _entries(self, entries: Any) -> tuple[AllocatedClaim, ...]:
        if len(self._amounts) > _MOST_AMOUNTS:
            self._amounts.clear()
        return tuple([self._entry(entry["name"], entry["uid"], entry.get("claims") or {}) for entry in entries])

    def _entry(self, name: Any, uid: Any, values: Mapping[str, Any]) -> AllocatedClaim:
        if name.__class__ is not str or uid.__class__ is not str:
            raise TypeError("a name and a uid are strings")
        written = tuple(values.items())
        amounts = self._amounts.get(written)
        if amounts is None:
            amounts = self._amounts[written] = _amounts(values)[0]
        return AllocatedClaim(name, uid, amounts)


_MOST_AMOUNTS = 10_000


def scopes_of(pool: ResourcePool) -> dict[str, Any]:
    """Return scopes and scopeSelector of a pool's ResourceQuotas, if the pool has any."""
    quota = pool.spec.quota
    scopes: dict[str, Any] = {}
    if quota.scopes:
        scopes["scopes"] = list(quota.scopes)
    if quota.scope_selector is not None:
        scopes["scopeSelector"] = quota.scope_selector.wire()
    return scopes


def _amounts_in(text: str) -> Amounts | None:
    if not text:
        return None
    try:
        return _amounts(json.loads(text))[0]
    except ValueError:
        return None


def quota_view(quota: Object, pool: ResourcePool) -> QuotaView:
    """Return the view of a ResourceQuota of a pool."""
    owner = quota.metadata.controller
    controlled = owner is not None and owner.uid == pool.uid and quota.metadata.label(QuotaLabel.POOL) == pool.name
    scopes = {name: value for name in ("scopes", "scopeSelector") if (value := quota.get("spec", name))}
    return QuotaView(
        hard=_amounts(quota.get("spec", "hard"))[0],
        status_hard=_amounts(quota.get("status", "hard"))[0],
        used=_amounts(quota.get("status", "used"))[0],
        intact=controlled and scopes == scopes_of(pool),
        claims=frozenset(quota.metadata.annotation(QuotaAnnotation.CLAIMS).split()),
        defaults=_amounts_in(quota.metadata.annotation(QuotaAnnotation.DEFAULTS)),
        releasing=_amounts_in(quota.metadata.annotation(QuotaAnnotation.RELEASING)) or {},
        version=quota.metadata.resource_version,
    )


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a pool that the claim controller needs: its offer, and the namespaces that it serves."""

    name: str
    uid: str
    deleting: bool
    offer: Offer
    namespaces: frozenset[str] = msgspec.field(default_factory=frozenset)
    listed: frozenset[str] = frozenset()
    """The uids of the listed claims."""
    unseen_since: datetime | None = None
    """Its creation time, while its controller has not written a status yet."""
    deletes_bound: bool = False
    """Whether its finalizer deletes its allocated claims."""


def pool_facts(pool: Object) -> PoolFacts:
    """Return the properties of a pool; without a status it serves no namespace yet."""
    metadata = pool.metadata
    waiting = pool.get("status", "exhaustions", default={}) if pool.get("spec", "config", "orderedQueue") else {}
    namespaces = pool.get("status", "namespaces", default=())
    return PoolFacts(
        name=metadata.name,
        uid=metadata.uid,
        deleting=metadata.deleting,
        unseen_since=metadata.created if pool.get("status", "observedGeneration") is None else None,
        namespaces=frozenset([name for name in namespaces if isinstance(name, str)]),
        listed=_listed(pool.get("status", "claims")),
        deletes_bound=pool.get("spec", "config", "deleteBoundResources") is True,
        offer=Offer(
            name=metadata.name,
            uid=metadata.uid,
            hard=_quantities(pool.get("status", "allocation", "hard", default={})),
            available=_amounts(pool.get("status", "allocation", "available"))[0],
            waiting=_amounts(
                {name: entry.get("requesting") for name, entry in waiting.items() if isinstance(entry, Mapping)}
            )[0],
        ),
    )


def _listed(claims: Any) -> frozenset[str]:
    if not isinstance(claims, Mapping):
        return frozenset()
    try:
        return frozenset(map(itemgetter("uid"), chain.from_iterable(claims.values())))
    except (KeyError, TypeError):  # damaged
        entries = [entry for listed in claims.values() if isinstance(listed, list) for entry in listed]
        return frozenset([_text(entry.get("uid")) for entry in entries if isinstance(entry, Mapping)])


def selectors_of(pool: Object) -> tuple[LabelSelector, ...]:
    """Return the valid selectors of a pool."""
    return tuple(_selectors(pool.get("spec", "selectors", default=())))


def _selectors(entries: Iterable[Any]) -> Iterable[LabelSelector]:
    for entry in entries:
        try:
            yield LabelSelector.model_validate(entry)
        except ValueError:
            continue


def pool_references(metadata: Metadata, group: str) -> tuple[int, ...]:
    """Return the indexes of pools in a claim's owner references (docs/reference/capsule.md#owner-references)."""
    return tuple(
        index
        for index, owner in enumerate(metadata.owner_references)
        if owner.kind == "ResourcePool" and owner.group == group
    )
