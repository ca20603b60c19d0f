"""One server-side apply: whether to send it, how, and what was learned.

Promises: an apply is skipped only where the fields that it would own equal the fields that we own and every value is equal, or where
this very intent was last answered with what the cache still shows (defaults and normalised quantities must not loop). What was found
to stand is not compared again while intent and version are the same: most children stand, in most passes. An apply that met a
conflict and was declared HOLD is not sent again until the intent, or the object, changed.

The decisions are pure functions on what the cache and the memory say; `Applier` is the shell that sends.

Applies that change nothing and loops on defaults, in the field: https://github.com/operator-framework/java-operator-sdk/issues/2249,
https://github.com/keycloak/keycloak/issues/38846, https://github.com/kubernetes/kubernetes/issues/131175
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from prometheus_client import Counter

from konverge.client import Client, decode_as, decode_object
from konverge.errors import ApplyConflict, FieldConflict
from konverge.fields import (
    Owner,
    applied_fields,
    applied_part,
    decode_fields,
    digest,
    owned_by,
    projection,
    unchanged,
    unchanged_by,
    without_nulls,
)
from konverge.informers import Cached
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.objects import FullMetadata, Object
from konverge.runtime.apply.conflicts import FieldsHeld, Held, OnConflict

__all__ = ["HELD_RETRY", "Answer", "Applier", "Refusal", "StatusResult", "answered_before", "held_for"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

HELD_RETRY = 30.0
"""Seconds before a held apply is tried again: the object's version moved though no value of the intent did, or nobody caches it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How the server answered an intent: digests of the intent, of our field set, and of the values that it covers."""

    intent: str
    owned: str
    values: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An intent that met fields of other managers, and the object as it was then."""

    intent: str
    uid: str
    values: str
    version: str
    at: float
    conflicts: tuple[FieldConflict, ...]


def answered_before(intent: Mapping[str, Any], answer: Answer | None, owned: bytes, live: Mapping[str, Any]) -> bool:
    """Tell whether this very intent was last answered with what the cache shows: `live`, of which we own `owned`."""
    if answer is None or answer.intent != digest(applied_part(intent)):
        return False
    # Compared as data: the server escapes characters in JSON that an encoder here would not.
    fields = decode_fields(owned)
    return digest(fields) == answer.owned and digest(projection(live, fields)) == answer.values


def held_for(intent: Mapping[str, Any], refusal: Refusal | None, cached: Cached, now: float) -> float | None:
    """Tell whether sending the intent again could end otherwise than it did: None where it could.

    Else the seconds after which it is worth another try: infinite where the object is as it was, finite where its version moved but no
    value that the intent names did, since somebody may have let go of a field without changing it.
    """
    if refusal is None or refusal.intent != digest(intent):
        return None
    if cached.metadata.uid != refusal.uid or digest(_named_by(intent, cached.data())) != refusal.values:
        return None
    if cached.metadata.resource_version == refusal.version:
        return math.inf
    wait = refusal.at + HELD_RETRY - now
    return wait if wait > 0 else None


def _named_by(intent: Any, live: Any) -> Any:
    """Return the part of a live object that an intent speaks of; lists count as a whole."""
    if isinstance(intent, Mapping) and isinstance(live, Mapping):
        skip = {"apiVersion", "kind", "uid", "resourceVersion"}
        return {key: _named_by(member, live.get(key)) for key, member in intent.items() if key not in skip}
    return live


class _Status(msgspec.Struct):
    metadata: FullMetadata
    status: Any = None


_NEVER = object()
_STATUS = msgspec.json.Decoder(_Status)


class StatusResult(NamedTuple):
    """The answer to a status apply. Of the rest of the object only the bytes are kept: nobody asks for it, but to compare it."""

    metadata: FullMetadata
    status: Any
    body: bytes

    @classmethod
    def of(cls, body: bytes) -> StatusResult:
        """Read an answer; raises ServerFailure for what is none."""
        found = decode_as(_STATUS, body, "object with metadata")
        return cls(found.metadata, found.status, body)


class _Memory(Generic[K, V]):
    """A mapping that forgets what was used longest ago."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._limit:
            self._items.popitem(last=False)

    def drop(self, key: K) -> None:
        self._items.pop(key, None)

    def __len__(self) -> int:
        return len(self._items)


def _answer(intent: Mapping[str, Any], fields: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> Answer | None:
    """What is worth remembering of an answer: nothing where it holds the intent as it was sent, which needs no memory to be seen."""
    # A status that came back as it was sent is the commonest case, and owned as it was sent.
    if fields is None or stored.get("status") == intent.get("status", _NEVER) or unchanged_by(intent, fields, stored):
        return None
    return Answer(digest(applied_part(intent)), digest(fields), digest(projection(stored, fields)))


def _question(intent: Mapping[str, Any], cached: Cached, owner: Owner) -> bytes:
    """What is asked before an apply that may not be needed: this intent, of this owner, on an object at this version."""
    where = "\0".join((cached.uid, cached.version, *owner)).encode()
    return hashlib.blake2b(where + b"\0" + msgspec.json.encode(intent), digest_size=16).digest()


class Applier:
    """Sends the applies of one controller under one field manager, and remembers the answers. Constructing it does nothing."""

    def __init__(
        self, client: Client, *, controller: str, metrics: Metrics, now: Callable[[], float], memory: int = 50_000
    ) -> None:
        self._client = client
        self._controller = controller
        self._metrics = metrics
        self._now = now
        self._answers: _Memory[Key, dict[Owner, Answer]] = _Memory(memory)
        self._refusals: _Memory[Key, Refusal] = _Memory(memory)
        # The last question that was answered with "nothing would change", for children that stand as they are, pass after pass.
        self._stood: _Memory[Key, bytes] = _Memory(memory)
        # As many as the metric itself has children of this controller.
        self._counters: dict[tuple[str, str], Counter] = {}

    def _count(self, kind: Kind[Any], result: str) -> None:
        counter = self._counters.get((kind.kind, result))
        if counter is None:
            counter = self._metrics.applies.labels(controller=self._controller, kind=kind.kind, result=result)
            self._counters[kind.kind, result] = counter
        counter.inc()

    def standing(self, intent: Mapping[str, Any], key: Key, cached: Cached | None, owner: Owner) -> Object | None:
        """Return the object where sending this intent would change nothing of it; always None where the cache has no such object.

        Of an object under deletion only the status is worth the question: an ending that takes many looks writes it once.
        """
        if cached is None or (cached.metadata.deleting and not owner.subresource):
            return None
        owned = (cached.owned or {}).get(owner)
        if owned is None:
            return None
        live = cached.data()
        return Object(live) if self._stands(intent, key, owned, live, owner) else None

    def _stands(self, intent: Mapping[str, Any], key: Key, owned: bytes, live: Mapping[str, Any], owner: Owner) -> bool:
        if unchanged(intent, owned, live):
            return True
        answers = self._answers.get(key)
        return answers is not None and answered_before(intent, answers.get(owner), owned, live)

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
    ) -> tuple[Object, bool]:
        """Make the object hold this intent; returns it as stored, and whether anything was sent.

        Raises FieldsHeld where other managers own fields and the conflict is to be held, and what the client raises.
        """
        owner = Owner(manager, "Apply", subresource)
        question = _question(intent, cached, owner) if cached is not None and cached.version else b""
        if cached is not None and question and self._stood.get(key) == question:
            self._count(key.kind, "skipped")
            return Object(cached.data()), False
        intent = without_nulls(intent)
        standing = self.standing(intent, key, cached, owner)
        if standing is not None:
            self._count(key.kind, "skipped")
            if question:
                self._stood.put(key, question)
            return standing, False
        if cached is not None and on_conflict is OnConflict.HOLD:
            refusal = self._refusals.get(key)
            wait = held_for(intent, refusal, cached, self._now())
            if refusal is not None and wait is not None:
                self._count(key.kind, "held")
                raise FieldsHeld(Held(key, refusal.conflicts), look_again=wait)
        try:
            answer = await self._client.apply_raw(
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
            # What nobody caches wakes nobody when it changes.
            look_again = HELD_RETRY if cached is None else math.inf
            raise FieldsHeld(Held(key, conflict.conflicts), look_again=look_again) from conflict
        stored = decode_object(answer)
        managed = stored.get("metadata", {}).pop("managedFields", None)
        self._sent(key, intent, applied_fields(managed, owner) if managed else None, stored, owner)
        return Object(stored), True

    async def try_out(
        self, key: Key, intent: Mapping[str, Any], *, manager: str, force: bool, subresource: str = ""
    ) -> Object:
        """Return the object as the server would store it, were the intent applied: a dry run. Raises FieldsHeld as `apply` does."""
        try:
            return await self._client.apply(
                key.kind, intent, manager=manager, force=force, subresource=subresource, dry_run=True
            )
        except ApplyConflict as conflict:
            if force or not conflict.conflicts:
                raise
            raise FieldsHeld(Held(key, conflict.conflicts)) from conflict

    async def apply_status(
        self, key: Key, intent: Mapping[str, Any], *, cached: Cached, manager: str, writer: Hashable | None = None
    ) -> StatusResult | None:
        """Make the status hold this intent, whoever else owns fields of it; None where nothing had to be sent.

        `intent` names its kind and has no nulls. Raises what the client raises.
        """
        owner = Owner(manager, "Apply", "status")
        owned = (cached.owned or {}).get(owner)
        if owned is not None and self._stands(intent, key, owned, {"status": cached.status()}, owner):
            self._count(key.kind, "skipped")
            return None
        try:
            body = await self._client.apply_raw(
                key.kind, intent, manager=manager, force=True, subresource="status", writer=writer, normalized=True
            )
        except ApplyConflict:
            self._count(key.kind, "conflicted")
            raise
        answer = StatusResult.of(body)
        after = owned_by(answer.metadata.managed_fields or b"[]", (manager,)).get(owner)
        fields = None if after is None else decode_fields(after)
        self._sent(key, intent, fields, {"status": answer.status}, owner)
        return answer

    def _sent(
        self,
        key: Key,
        intent: Mapping[str, Any],
        fields: Mapping[str, Any] | None,
        stored: Mapping[str, Any],
        owner: Owner,
    ) -> None:
        self._count(key.kind, "sent")
        self._refusals.drop(key)
        answer = _answer(intent, fields, stored)
        if answer is not None:
            self._answers.put(key, {**(self._answers.get(key) or {}), owner: answer})
        elif (known := self._answers.get(key)) is not None:
            known.pop(owner, None)

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
                digest(_named_by(intent, cached.data())),
                seen.resource_version,
                self._now(),
                conflict.conflicts,
            ),
        )

    def forget(self, key: Key) -> None:
        """Drop what was remembered of an object that is gone."""
        self._refusals.drop(key)
        self._answers.drop(key)
        self._stood.drop(key)

    @property
    def remembered(self) -> int:
        """Of how many objects something is remembered, at most."""
        return len(self._answers) + len(self._refusals) + len(self._stood)
