"""Invariants that must hold after every single write, under every fault. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from konverge_testing.apiserver.storage import Event

__all__ = ["QUIET", "broken", "place_of", "violated"]

_KSTATUS: Final = frozenset({"Reconciling", "Stalled"})
QUIET: Final = frozenset({("events.k8s.io", "events"), ("", "events"), ("coordination.k8s.io", "leases")})
"""Resources for reports and coordination, which the compared state leaves out."""


def place_of(event: Event) -> str:
    """Return the object of a commit in words: `configmaps lab/part-0`."""
    entry = event.entry
    group, plural = entry.resource
    what = f"{plural}.{group}" if group else plural
    return f"{what} {entry.namespace}/{entry.name}" if entry.namespace else f"{what} {entry.name}"


def broken(predicates: Iterable[Callable[[], None]], event: Event) -> Iterator[tuple[Callable[[], None], str]]:
    """Yield the predicates that do not hold after a commit, each with its text."""
    for check in predicates:
        try:
            check()
        except AssertionError as error:
            yield check, f"a predicate does not hold after {event.type.lower()} {place_of(event)}: {error}"


def violated(event: Event, namespaces: Mapping[str, str]) -> list[str]:
    """Return the violations of one commit: an observedGeneration that decreased, a condition that vanished, an invalid owner.

    Reconciling and Stalled are kstatus's: they may vanish, since they exist only while they are True, and they exclude each other.

    `namespaces` has the namespace of every uid that was ever stored, "" for cluster-scoped objects.
    """
    if event.type == "DELETED":
        return []
    new = event.entry.object()
    problems = _owners(new, namespaces)
    if event.previous is None or event.previous.uid != event.entry.uid:
        return problems
    old = event.previous.object()
    where = f"{new['kind']} {event.entry.key}"
    before, after = _status(old), _status(new)
    seen, sees = before.get("observedGeneration"), after.get("observedGeneration")
    if isinstance(seen, int) and isinstance(sees, int) and sees < seen:
        problems.append(f"{where}: status.observedGeneration went back from {seen} to {sees}")
    missing = {one["type"] for one in _conditions(before)} - {one["type"] for one in _conditions(after)} - _KSTATUS
    if {one["type"] for one in _conditions(after) if one.get("status") == "True"} >= _KSTATUS:
        problems.append(f"{where}: Reconciling and Stalled are both True")
    if missing and not event.entry.deleted:
        problems.append(f"{where}: {', '.join(sorted(missing))} vanished from status.conditions")
    return problems


def _status(data: dict[str, Any]) -> dict[str, Any]:
    found = data.get("status")
    return found if isinstance(found, dict) else {}


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = status.get("conditions")
    return [one for one in found if isinstance(one, dict) and "type" in one] if isinstance(found, list) else []


def _owners(data: dict[str, Any], namespaces: Mapping[str, str]) -> list[str]:
    """An owner must be in the object's namespace or cluster-scoped, and be listed once: else the garbage collector errs."""
    references = data["metadata"].get("ownerReferences") or ()
    own = data["metadata"].get("namespace", "")
    where = f"{data['kind']} {own}/{data['metadata']['name']}"
    uids = [one["uid"] for one in references]
    problems = [f"{where}: two owner references to one uid"] if len(uids) != len(set(uids)) else []
    for reference in references:
        theirs = namespaces.get(reference["uid"], "")
        if theirs and theirs != own:
            problems.append(f"{where}: its owner {reference['kind']} {reference['name']} is in the namespace {theirs}")
    return problems
