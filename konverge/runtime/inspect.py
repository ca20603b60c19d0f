"""What `/debug` and `konverge explain` say: plain data about controllers, queues, caches and last passes. No object content."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from konverge.clock import rfc3339
from konverge.informers import InformerSet
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.runtime.controller import ControllerRunner
from konverge.runtime.rules import plural_of

__all__ = ["describe", "explain", "plain"]


def plain(value: Any) -> Any:
    """Return a value as data that JSON can hold."""
    if isinstance(value, Kind):
        return value.group_kind
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return rfc3339(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(member) for key, member in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [plain(member) for member in value]
    return str(value)


def _queue(runner: ControllerRunner) -> dict[str, Any]:
    return {"statistics": plain(runner.queue.statistics()), **plain(runner.queue.snapshot(limit=200))}


def _controller(runner: ControllerRunner) -> dict[str, Any]:
    return {
        **runner.report().to_dict(),
        "kind": runner.spec.kind.group_kind,
        "numbers": plain(runner.spec.numbers),
        "lastPasses": [record.to_dict() for record in reversed(runner.history.recent())],
    }


def describe(
    runners: Callable[[], tuple[ControllerRunner, ...]], informers: Callable[[], InformerSet | None]
) -> dict[str, Callable[[], Any]]:
    """Return the pages of `/debug`, each as a function that makes plain data."""

    def caches() -> list[Any]:
        found = informers()
        return [] if found is None else [plain(informer.statistics()) for informer in found.informers()]

    return {
        "controllers": lambda: {runner.spec.name: _controller(runner) for runner in runners()},
        "queues": lambda: {runner.spec.name: _queue(runner) for runner in runners()},
        "informers": caches,
    }


def _names(kind: Kind[Any]) -> set[str]:
    return {kind.kind.lower(), kind.group_kind.lower(), plural_of(kind)}


def explain(runners: tuple[ControllerRunner, ...], kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
    """Return, for each controller of this kind (kind, plural or short name), what is known of one object's passes."""
    found = []
    for runner in runners:
        declaration = getattr(runner.spec.model, "__konverge_declaration__", None)
        known = _names(runner.spec.kind) | set(getattr(declaration, "short_names", ()))
        if kind.lower() not in known:
            continue
        key = Key("", runner.spec.kind, namespace, name)
        passes = runner.history.of(key)
        waiting = runner.queue.why(key)
        found.append(
            {
                "controller": runner.spec.name,
                "key": str(key),
                "cached": runner.caches(runner.spec.kind).metadata(namespace, name) is not None,
                "ready": runner.report().ready,
                "why": runner.report().why,
                "passes": [record.to_dict() for record in reversed(passes)],
                "waits": None if waiting is None else plain(waiting),
            }
        )
    return found
