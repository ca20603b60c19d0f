"""One server-side apply: whether and how to send it, and which result to remember.

Guarantees: an apply is skipped only in two cases. Either the applied fields equal our own fields, with equal values; or the cache
still shows the server's last response to the same intent (defaults and normalised quantities must not loop). A comparison that found
no change is not repeated for the same intent and version: most children are unchanged in most reconciles. An apply that met a conflict
and was declared HOLD is not sent again until the intent or the object changed.

The decisions are pure functions of the cached object and the memory: `changes_nothing` (nothing is sent) and `hold_remaining` (a held apply
is not sent again yet). `Applier` is the shell that sends. `konverge.fields.unchanged` compares an intent with field set and live values.

Applies that change nothing and loops on defaults, in the field: https://github.com/operator-framework/java-operator-sdk/issues/2249,
https://github.com/keycloak/keycloak/issues/38846, https://github.com/kubernetes/kubernetes/issues/131175
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from konverge.client import Client, decode_as, decode_object
from konverge.errors import ApplyConflict, FieldConflict
from konverge.fields import (
    Owner,
    applied_fields,
    applied_part,
    decode_fields,
    digest,
    has_nulls,
    owned_by,
    projection,
    unchanged,
    unchanged_by,
    without_emptied,
)
from konverge.informers import Cached
from konverge.informers.store import CachedObject
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.objects import FullMetadata, Metadata, Object
from konverge.runtime.apply.conflicts import FieldsHeld, Held, OnConflict
from konverge.runtime.apply.rivals import Rivals
from konverge.tallies import LoopCounter

__all__ = [
    "AppliedObject",
    "Applier",
    "ApplyResult",
    "HELD_RETRY",
    "LruDict",
    "Refusal",
    "StatusResult",
    "apply_result",
    "comparison_digest",
    "matches_last_apply",
    "changes_nothing",
    "hold_remaining",
    "project_onto_intent",
    "still_owns_last_apply",
]


_ABSENT = object()

HELD_RETRY = 30.0
"""Seconds before a held apply is tried again: only the object's version changed and no value of the intent, or the object is not cached."""


_MOST_STATUSES: Final = 4096
"""The remembered comparisons of statuses. Only objects that are reconciled again and again without a change profit from them."""


class ApplyResult(msgspec.Struct, frozen=True):
    """The server's response to an intent: digests of the intent, of our field set, and of the values that it covers."""

    intent: str
    owned: str
    values: str


class Refusal(msgspec.Struct, frozen=True):
    """A refused intent, which named fields of other managers, and the state of the object at that moment."""

    intent: str
    uid: str
    values: str
    version: str
    at: float
    conflicts: tuple[FieldConflict, ...]


def apply_result(
    intent: Mapping[str, Any],
    fields: Mapping[str, Any] | None,
    stored: Mapping[str, Any],
    *,
    values_cached: bool = True,
) -> ApplyResult | None:
    """Return the result to remember; None if the server stored the intent unchanged, so that a comparison of values suffices.

    Without cached values each result is remembered, since there is nothing to compare.
    """
    # A status that was stored unchanged is the most frequent case, and it is owned as it was sent.
    if fields is None:
        return None
    if values_cached and (
        stored.get("status") == intent.get("status", _ABSENT) or unchanged_by(intent, fields, stored)
    ):
        return None
    return ApplyResult(digest(applied_part(intent)), digest(fields), digest(projection(stored, fields)))


def changes_nothing(
    intent: Mapping[str, Any], owned: bytes, live: Mapping[str, Any], result: ApplyResult | None
) -> bool:
    """Return whether the intent would not change `live`; `owned` are our fields, `result` belongs to the last apply."""
    return unchanged(intent, owned, live) or (result is not None and matches_last_apply(intent, result, owned, live))


def matches_last_apply(intent: Mapping[str, Any], result: ApplyResult, owned: bytes, live: Mapping[str, Any]) -> bool:
    """Return whether the object still is as the server stored it for this intent; `owned` are our fields."""
    if result.intent != digest(applied_part(intent)):
        return False
    # Compared as data: the server's JSON encoder escapes more characters than ours.
    fields = decode_fields(owned)
    return digest(fields) == result.owned and digest(projection(live, fields)) == result.values


def still_owns_last_apply(intent: Mapping[str, Any], result: ApplyResult | None, owned: bytes) -> bool:
    """Return whether this intent was applied last, and its fields still are ours: then no other manager changed their values.

    The rule for objects without a cached body. A manager that changes or removes a field takes it out of our field set:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    """
    return (
        result is not None
        and result.intent == digest(applied_part(intent))
        and result.owned == digest(decode_fields(owned))
    )


def hold_remaining(intent: Mapping[str, Any], refusal: Refusal | None, cached: Cached, now: float) -> float | None:
    """Return the seconds until a held apply is tried again, None if a retry could succeed now.

    They are infinite if the object did not change, and finite if only its version changed and no value of the intent: another manager may
    have released a field without a change of its value.
    """
    if refusal is None or refusal.intent != digest(intent):
        return None
    if cached.metadata.uid != refusal.uid or digest(project_onto_intent(intent, cached.data())) != refusal.values:
        return None
    if cached.metadata.resource_version == refusal.version:
        return math.inf
    wait = refusal.at + HELD_RETRY - now
    return wait if wait > 0 else None


def project_onto_intent(intent: Any, live: Any) -> Any:
    """Return the values of a live object that an intent names; a list counts as a whole."""
    if isinstance(intent, Mapping) and isinstance(live, Mapping):
        skip = {"apiVersion", "kind", "uid", "resourceVersion"}
        return {key: project_onto_intent(member, live.get(key)) for key, member in intent.items() if key not in skip}
    return live


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Status(msgspec.Struct):
    metadata: FullMetadata
    status: Any = None


_NO_RESULTS: Mapping[Owner, ApplyResult] = {}
_STATUS = msgspec.json.Decoder(_Status)
_ENCODE = msgspec.json.Encoder().encode


class StatusResult(NamedTuple):
    """The response to a status apply. The rest of the object is kept as bytes, since it is only compared."""

    metadata: FullMetadata
    status: Any
    body: bytes

    @classmethod
    def of(cls, body: bytes) -> StatusResult:
        """Decode a response; raises ServerFailure for a malformed one."""
        decoded = decode_as(_STATUS, body, "object with metadata")
        return cls(decoded.metadata, decoded.status, body)


class AppliedObject(NamedTuple):
    """The result of an apply. `sent`: a request was necessary. `exact`: the server stored the intent unchanged and as ours, so that a
    comparison of the intent with this object finds no change.
    """

    stored: Object
    sent: bool
    exact: bool = False


class LruDict(Generic[K, V]):
    """A mapping that drops the entry that was least recently used.

    >>> cache = LruDict[str, int](2)
    >>> cache.put("a", 1), cache.put("b", 2), cache.get("a"), cache.put("c", 3), cache.get("b")
    (None, None, 1, None, None)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an entry, None if it is absent."""
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace an entry."""
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._limit:
            self._items.popitem(last=False)

    def drop(self, key: K) -> None:
        """Remove an entry if it exists."""
        self._items.pop(key, None)

    def __len__(self) -> int:
        return len(self._items)


def comparison_digest(seen: Metadata, intent: Mapping[str, Any], *circumstances: object) -> bytes:
    """Return the digest of a comparison: the object's version, the intent, and what else decides; b"" if the version is unknown.

    A comparison with an equal digest has an equal result. A change of a value or of a field's owner changes the version.
    """
    if not seen.resource_version:
        return b""
    compared = _ENCODE((seen.uid, seen.resource_version, circumstances, intent))
    return hashlib.blake2b(compared, digest_size=16).digest()


class Applier:
    """Sends the applies of one controller and remembers their results. Constructing it does nothing."""

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        metrics: Metrics,
        now: Callable[[], float],
        memory: int = 50_000,
        rivals: Rivals | None = None,
        metadata_only: frozenset[Kind[Any]] = frozenset(),
    ) -> None:
        """`metadata_only` are the kinds of children without a cached body."""
        self._client = client
        self._controller = controller
        self._metrics = metrics
        self._now = now
        self._rivals = rivals
        self._metadata_only = metadata_only
        self._results: LruDict[Key, dict[Owner, ApplyResult]] = LruDict(memory)
        self._refusals: LruDict[Key, Refusal] = LruDict(memory)
        # The last comparison that found no change. Children have theirs in `Claims`.
        self._unchanged_digests: LruDict[Key, bytes] = LruDict(memory)
        self._unchanged_statuses: LruDict[Key, bytes] = LruDict(_MOST_STATUSES)
        # Bounded by the number of label values of the metric.
        self._counters: dict[tuple[str, str], LoopCounter] = {}

    def _counter(self, kind: Kind[Any], result: str) -> LoopCounter:
        counter = self._counters.get((kind.kind, result))
        if counter is None:
            counter = self._metrics.applies.labels(controller=self._controller, kind=kind.kind, result=result)
            self._counters[kind.kind, result] = counter
        return counter

    def _count(self, kind: Kind[Any], result: str) -> None:
        self._counter(kind, result).count += 1

    def skipped(self, kind: Kind[Any]) -> LoopCounter:
        """Return the counter of the applies to a kind that were not sent, since nothing would have changed."""
        return self._counter(kind, "skipped")

    def unchanged(self, intent: Mapping[str, Any], key: Key, cached: Cached | None, owner: Owner) -> Object | None:
        """Return the cached object if the intent would not change it, else None.

        Only the status of an object under deletion is compared: a finalization of many reconciles writes it once.
        """
        if cached is None or (cached.metadata.deleting and not owner.subresource):
            return None
        owned = (cached.owned or {}).get(owner)
        if owned is None:
            return None
        live, result = cached.data(), (self._results.get(key) or _NO_RESULTS).get(owner)
        if cached.metadata_only:
            return Object(live) if still_owns_last_apply(intent, result, owned) else None
        return Object(live) if changes_nothing(intent, owned, live, result) else None

    async def apply(
        self,
        key: Key,
        intent: Mapping[str, Any],
        *,
        cached: Cached | None,
        manager: str,
        on_conflict: OnConflict,
        subresource: str = "",
        writer: Hashable | None = None,
        on_behalf: Key | None = None,
        compare: bool = True,
    ) -> AppliedObject:
        """Apply an intent, unless it would change nothing.

        `compare` is False if the caller remembers the comparisons that find no change.
        With `on_behalf`, the object that is reconciled, applies that other writers undo are noticed.
        Errors: FieldsHeld if other managers own fields and `on_conflict` is HOLD, Contested if another writer of this manager undoes it
        again and again, and the errors of the client.
        """
        owner = Owner(manager, "Apply", subresource)
        comparison = comparison_digest(cached.metadata, intent, owner) if compare and cached is not None else b""
        if comparison and cached is not None and self._unchanged_digests.get(key) == comparison:
            self._count(key.kind, "skipped")
            return AppliedObject(CachedObject(cached, key.kind), sent=False)
        wanted = intent
        if has_nulls(intent):
            intent = await self._client.settle_nulls(key.kind, intent)
        unchanged_object = self.unchanged(intent, key, cached, owner)
        if unchanged_object is not None:
            self._count(key.kind, "skipped")
            if comparison:
                self._unchanged_digests.put(key, comparison)
            return AppliedObject(unchanged_object, sent=False)
        if cached is not None and on_conflict is OnConflict.HOLD:
            refusal = self._refusals.get(key)
            wait = hold_remaining(intent, refusal, cached, self._now())
            if refusal is not None and wait is not None:
                self._count(key.kind, "held")
                raise FieldsHeld(Held(key, refusal.conflicts), look_again=wait)
        owned = None if cached is None else (cached.owned or {}).get(owner)
        if owned is not None:
            intent = without_emptied(intent, decode_fields(owned))
        rivals, undone = self._rivals, False
        sending = None if rivals is None or on_behalf is None else rivals.apply_of(key, intent, owner, on_behalf)
        if rivals is not None and sending is not None:
            undone = await rivals.undo(sending, intent, cached, owner)
        try:
            body = await self._client.apply_raw(
                key.kind,
                intent,
                manager=manager,
                force=on_conflict is OnConflict.TAKE,
                subresource=subresource,
                writer=writer,
            )
        except ApplyConflict as conflict:
            self._count(key.kind, "conflicted")
            if on_conflict is OnConflict.TAKE or not conflict.conflicts:
                raise
            self._remember_refusal(key, intent, cached, conflict)
            # A change of an object that is not cached causes no event.
            look_again = HELD_RETRY if cached is None else math.inf
            raise FieldsHeld(Held(key, conflict.conflicts), look_again=look_again) from conflict
        stored = decode_object(body)
        managed = stored.get("metadata", {}).pop("managedFields", None)
        exact = self._sent(key, intent, applied_fields(managed, owner) if managed else None, stored, owner)
        if rivals is not None and sending is not None:
            rivals.sent(sending, stored, undone=undone)
        return AppliedObject(Object(stored), sent=True, exact=exact and intent is wanted)

    async def dry_run(
        self, key: Key, intent: Mapping[str, Any], *, manager: str, force: bool, subresource: str = ""
    ) -> Object:
        """Return the object as the server would store it. Raises FieldsHeld as `apply` does."""
        try:
            return await self._client.apply(
                key.kind, intent, manager=manager, force=force, subresource=subresource, dry_run=True
            )
        except ApplyConflict as conflict:
            if force or not conflict.conflicts:
                raise
            raise FieldsHeld(Held(key, conflict.conflicts)) from conflict

    async def apply_status(
        self,
        key: Key,
        intent: Mapping[str, Any],
        *,
        cached: Cached,
        manager: str,
        writer: Hashable | None = None,
        stored: Mapping[str, Any] | None = None,
        check: Callable[[], None] | None = None,
    ) -> StatusResult | None:
        """Apply a status by force; None if nothing would change and nothing was sent.

        `intent` names its kind, and its nulls are values. `stored` is the cached status, if it is decoded already. `check` may refuse to
        send the status. Raises the client's errors, and the check's.
        """
        owner = Owner(manager, "Apply", "status")
        before = self._unchanged_statuses.get(key)
        if before is not None and before == comparison_digest(cached.metadata, intent, owner):
            self._count(key.kind, "skipped")
            return None
        owned = (cached.owned or {}).get(owner)
        if owned is not None and changes_nothing(
            intent,
            owned,
            {"status": cached.status() if stored is None else stored},
            (self._results.get(key) or _NO_RESULTS).get(owner),
        ):
            self._count(key.kind, "skipped")
            if comparison := comparison_digest(cached.metadata, intent, owner):
                self._unchanged_statuses.put(key, comparison)
            return None
        if check is not None:
            check()
        if owned is not None:
            intent = without_emptied(intent, decode_fields(owned))
        try:
            body = await self._client.apply_raw(
                key.kind, intent, manager=manager, force=True, subresource="status", writer=writer, normalized=True
            )
        except ApplyConflict:
            self._count(key.kind, "conflicted")
            raise
        response = StatusResult.of(body)
        after = owned_by(response.metadata.managed_fields or b"[]", (manager,)).get(owner)
        fields = None if after is None else decode_fields(after)
        self._sent(key, intent, fields, {"status": response.status}, owner)
        return response

    def _sent(
        self,
        key: Key,
        intent: Mapping[str, Any],
        fields: Mapping[str, Any] | None,
        stored: Mapping[str, Any],
        owner: Owner,
    ) -> bool:
        """Remember the result of an apply; return whether a comparison with the stored object would find no change."""
        self._count(key.kind, "sent")
        self._refusals.drop(key)
        values_cached = not (self._metadata_only and key.kind in self._metadata_only and not owner.subresource)
        result = apply_result(intent, fields, stored, values_cached=values_cached)
        if result is not None:
            self._results.put(key, {**(self._results.get(key) or {}), owner: result})
        elif (known := self._results.get(key)) is not None:
            known.pop(owner, None)
        return result is None and fields is not None

    def _remember_refusal(
        self, key: Key, intent: Mapping[str, Any], cached: Cached | None, conflict: ApplyConflict
    ) -> None:
        if cached is None:
            return
        seen = cached.metadata
        self._refusals.put(
            key,
            Refusal(
                digest(intent),
                seen.uid,
                digest(project_onto_intent(intent, cached.data())),
                seen.resource_version,
                self._now(),
                conflict.conflicts,
            ),
        )

    def forget(self, key: Key) -> None:
        """Drop the results of a deleted object."""
        self._refusals.drop(key)
        self._results.drop(key)
        self._unchanged_digests.drop(key)
        self._unchanged_statuses.drop(key)

    @property
    def remembered(self) -> int:
        """The number of remembered results."""
        return len(self._results) + len(self._refusals) + len(self._unchanged_digests) + len(self._unchanged_statuses)
