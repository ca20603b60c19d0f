"""The data of `/debug` and `konverge explain`: controllers, queues, caches and last reconciles.

Guarantees: keys are in camelCase, as in Kubernetes; keys that are values themselves (names of controllers) are not changed. Only the
conditions of an object's content are shown, which are written for people.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from konverge.clock import rfc3339
from konverge.informers import InformerSet
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.kinds import kind as kind_named
from konverge.objects import Object
from konverge.rbac import plural_of
from konverge.runtime.controller.runner import ControllerRunner

_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")

__all__ = ["describe", "explain", "plain"]


def camel(name: str) -> str:
    """Return a Python name as a key in JSON.

    >>> camel("in_seconds"), camel("key")
    ('inSeconds', 'key')
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def plain(value: Any) -> Any:
    """Return a value as JSON data."""
    if isinstance(value, Kind):
        return value.group_kind
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, msgspec.Struct):
        return {camel(name): plain(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(field.name): plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
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
    """Return the pages of `/debug`, each as a function that returns plain data."""

    def caches() -> list[Any]:
        running = informers()
        return [] if running is None else [plain(informer.statistics()) for informer in running.informers()]

    return {
        "controllers": lambda: {runner.spec.name: _controller(runner) for runner in runners()},
        "queues": lambda: {runner.spec.name: _queue(runner) for runner in runners()},
        "informers": caches,
    }


def _conditions(object_: Object) -> list[dict[str, Any]]:
    """Return the conditions of an object, of every writer."""
    conditions = object_.get("status", "conditions", default=[])
    entries = conditions if isinstance(conditions, list) else []
    return [{word: entry[word] for word in _CONDITION if word in entry} for entry in entries if isinstance(entry, dict)]


def _names(kind: Kind[Any]) -> set[str]:
    return {kind.kind.lower(), kind.group_kind.lower(), plural_of(kind)}


def explain(runners: tuple[ControllerRunner, ...], kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
    """Return, for each controller of this kind (kind, plural or short name), the known facts about one object's reconciles."""
    explanations = []
    for runner in runners:
        declaration = getattr(runner.spec.model, "__konverge_declaration__", None)
        known = _names(runner.spec.kind) | set(getattr(declaration, "short_names", ()))
        if kind.lower() not in known:
            continue
        key = Key("", runner.spec.kind, namespace, name)
        view = kind_named(runner.spec.kind.api_version, runner.spec.kind.kind)
        cached = runner.caches(view).find(namespace, name)
        records = runner.history.of(key)
        waiting = runner.queue.why(key)
        explanations.append(
            {
                "controller": runner.spec.name,
                "key": str(key),
                "namespaced": runner.spec.kind.namespaced,
                "cached": cached is not None,
                "generation": None if cached is None else cached.metadata.generation,
                "paused": "" if cached is None else runner.pause_of(cached.metadata),
                "conditions": [] if cached is None else _conditions(cached),
                "ready": runner.report().ready,
                "why": runner.report().why,
                "reconciles": [record.to_dict() for record in reversed(records)],
                "waits": None if waiting is None else plain(waiting),
            }
        )
    return explanations
