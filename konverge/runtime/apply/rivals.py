"""Two alternating writers: an apply that another writer undoes again and again is counted, logged, and refused if both are of this manager.

Guarantees: an apply that stays in effect costs nothing here. The report names both writers, the object and the fields, and quotes no
value. Each object is reported once in `WINDOW` seconds.

Controllers that undo each other, in the field: https://github.com/argoproj/argo-cd/issues/3213,
https://github.com/kubernetes-sigs/cluster-api/issues/6320
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge.client import Client
from konverge.errors import ApplyConflict, Contested, KonvergeError
from konverge.fields import Owner, applied_part, decode_fields, digest
from konverge.informers import Cached
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime.consistency.undone import (
    OFTEN,
    WINDOW,
    PendingApply,
    UndoneApplies,
    Writer,
    differing_fields,
    surplus_fields,
    unowned_fields,
)
from konverge.runtime.observability.failures import Failure, FailureObserver
from konverge.words import LogKey

__all__ = ["Rivals"]

_MOST_FIELDS: Final = 5


class Rivals:
    """Notices the other writers of a controller's applied objects."""

    def __init__(
        self,
        client: Client,
        undone: UndoneApplies,
        *,
        controller: str,
        metrics: Metrics,
        now: Callable[[], float],
        observer: FailureObserver | None = None,
    ) -> None:
        self._client = client
        self._undone = undone
        self._controller = controller
        self._metrics = metrics
        self._now = now
        self._observer = observer
        self._log = get_logger("konverge.controller")

    def apply_of(self, key: Key, intent: Mapping[str, Any], owner: Owner, on_behalf: Key) -> PendingApply:
        """Return the identity of an apply that is about to be sent."""
        writer = Writer(self._controller, on_behalf, owner.manager)
        return PendingApply((key, owner.subresource), writer, digest(applied_part(intent)))

    async def undo(self, apply: PendingApply, intent: Mapping[str, Any], cached: Cached | None, owner: Owner) -> bool:
        """Return whether another writer undid the last apply of this intent.

        Errors: Contested if the other writer is of this manager, and the two have undone each other often. Any other writer is
        reported.
        """
        version = None if cached is None else (cached.uid, cached.version)
        rival = self._undone.rival(apply, version, now=self._now())
        if rival is None:
            return False
        key = apply.target[0]
        if rival.writer is not None:
            if rival.often:
                raise Contested(_in_turn(apply, rival.writer, await self._fields(key, intent, cached, owner)))
            return True
        part = applied_part(intent)
        if cached is not None and cached.metadata_only:
            fields = unowned_fields(part, decode_fields((cached.owned or {}).get(owner, b"{}")))
        else:
            fields = differing_fields(part, {} if cached is None else cached.data())
        if fields and rival.often and not rival.reported:
            self._undone.reported(apply, now=self._now())
            self._report(apply, Contested(await self._from_outside(apply, intent, fields, owner)))
        return bool(fields)

    def sent(self, apply: PendingApply, stored: Mapping[str, Any], *, undone: bool) -> None:
        """Note an apply that was sent."""
        metadata = stored.get("metadata") or {}
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        self._undone.sent(apply, uid, version, undone=undone, now=self._now())
        if undone:
            kind = apply.target[0].kind.kind
            self._metrics.applies_undone.labels(controller=self._controller, kind=kind).inc()

    def _report(self, apply: PendingApply, error: Contested) -> None:
        key = apply.target[0]
        self._log.warning(
            "another writer undoes the applies of this controller",
            **{
                LogKey.CONTROLLER: self._controller,
                LogKey.KEY: apply.writer.owner.path,
                LogKey.KIND: key.kind.group_kind,
                LogKey.NAMESPACE: key.namespace,
                LogKey.NAME: key.name,
                LogKey.ERROR: str(error),
            },
        )
        if self._observer is not None:
            self._observer.failed(Failure(where=self._controller, key=apply.writer.owner, error=error))

    async def _fields(self, key: Key, intent: Mapping[str, Any], cached: Cached | None, owner: Owner) -> list[str]:
        """Return the fields over which two writers of this manager disagree."""
        part = applied_part(intent)
        if cached is not None and not cached.metadata_only:
            owned = (cached.owned or {}).get(owner)
            return differing_fields(part, cached.data()) + surplus_fields(decode_fields(owned or b"{}"), part)
        try:
            live = await self._client.get(Kind(key.kind.api_version, key.kind.kind, Object), key.name, key.namespace)
        except KonvergeError:
            return []
        return differing_fields(part, live.data)

    async def _from_outside(
        self, apply: PendingApply, intent: Mapping[str, Any], fields: list[str], owner: Owner
    ) -> str:
        """Return the report about a writer outside of this manager; the server names its field manager in a dry run without force."""
        key, subresource = apply.target
        conflicts = tuple[str, ...]()
        try:
            await self._client.apply(
                key.kind, intent, manager=owner.manager, force=False, subresource=subresource, dry_run=True
            )
        except ApplyConflict as conflict:
            conflicts = tuple(f"{field.field} ({field.manager})" for field in conflict.conflicts)
        except KonvergeError:
            pass
        if conflicts:
            by = f"the field managers of {_text(conflicts)}"
        else:
            by = (
                f"a writer of {_text(fields)} that owns none of it now: it removes these fields, or it is another process or manager that "
                f"applies as {owner.manager!r}, too (a second replica, an older version)"
            )
        return (
            f"{key} has two writers: {OFTEN} applies of {apply.writer} were undone within {WINDOW:g} s by {by}. "
            "Take the fields out of one of the two, stop the other program, or declare HOLD for this object"
        )


def _in_turn(apply: PendingApply, other: Writer, fields: list[str]) -> str:
    about = f" over {_text(fields)}" if fields else ""
    return (
        f"{apply.target[0]} has two writers: {apply.writer} and {other} undo each other's applies{about}; nothing was sent. "
        "An apply carries the whole intent of its field manager. Let one of the two apply the object, or give the objects different names"
    )


def _text(fields: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(fields) - _MOST_FIELDS} more" if len(fields) > _MOST_FIELDS else ""
    return ", ".join(fields[:_MOST_FIELDS]) + more
