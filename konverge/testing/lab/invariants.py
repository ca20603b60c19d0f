"""What must hold after every single write, whatever happens: no reconciler may break it for a moment. Pure."""

from __future__ import annotations

from typing import Any

from konverge.testing.apiserver.storage import Event

__all__ = ["violated"]


def violated(event: Event) -> list[str]:
    """Tell what one commit broke: an observedGeneration that went back, a condition that vanished, an owner that cannot be one."""
    if event.type == "DELETED":
        return []
    new = event.entry.object()
    problems = _owners(new)
    if event.previous is None or event.previous.uid != event.entry.uid:
        return problems
    old = event.previous.object()
    where = f"{new['kind']} {event.entry.key}"
    before, after = _status(old), _status(new)
    seen, sees = before.get("observedGeneration"), after.get("observedGeneration")
    if isinstance(seen, int) and isinstance(sees, int) and sees < seen:
        problems.append(f"{where}: status.observedGeneration went back from {seen} to {sees}")
    missing = {one["type"] for one in _conditions(before)} - {one["type"] for one in _conditions(after)}
    if missing and not event.entry.deleted:
        problems.append(f"{where}: {', '.join(sorted(missing))} vanished from status.conditions")
    return problems


def _status(data: dict[str, Any]) -> dict[str, Any]:
    found = data.get("status")
    return found if isinstance(found, dict) else {}


def _conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = status.get("conditions")
    return [one for one in found if isinstance(one, dict) and "type" in one] if isinstance(found, list) else []


def _owners(data: dict[str, Any]) -> list[str]:
    references = data["metadata"].get("ownerReferences") or ()
    where = f"{data['kind']} {data['metadata'].get('namespace', '')}/{data['metadata']['name']}"
    uids = [one["uid"] for one in references]
    return [f"{where}: two owner references to one uid"] if len(uids) != len(set(uids)) else []
