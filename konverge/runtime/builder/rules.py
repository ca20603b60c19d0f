"""The RBAC rules that a controller needs, from its declaration. Pure.

Guarantees: `rules_of` names every right that the runtime uses for a controller. A reconciler declares its other live reads and patches
with `Controller.needs(...)`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from konverge.kinds import Kind
from konverge.rbac import READ, Rule, merged, plural_of
from konverge.runtime.builder.pause import NAMESPACE_RIGHT, namespace_watch

if TYPE_CHECKING:
    from konverge.runtime.builder.builder import Controller
    from konverge.runtime.builder.watched import Watched

__all__ = ["may_read_live", "rules_of"]

_WATCH = ("list", "watch")  # `list` for API servers that do not stream the first list
_WRITES = frozenset({"*", "create", "delete", "patch", "update"})


def rules_of(controller: Controller[Any]) -> tuple[Rule, ...]:
    """Return the rights that the runtime uses on behalf of this controller, and the rights that it declared.

    The runtime itself gets objects of the kinds that it writes: before the first apply of a child, and if a cache cannot tell whether it
    shows a write. So only a kind that is watched and not written can do without `get`.
    """
    primary, group = plural_of(controller.kind), controller.kind.group
    rules = [
        Rule(group, (primary,), (*READ, "patch") if controller.finalizer_name else READ),
        *(() if controller.metadata_only else (Rule(group, (f"{primary}/status",), ("patch",)),)),
        Rule("events.k8s.io", ("events",), ("create", "patch")),
    ]
    if namespace_watch(controller.kind, controller.pausable_by) is not None:
        rules.append(NAMESPACE_RIGHT)
    if controller.owned:
        rules.append(Rule(group, (f"{primary}/finalizers",), ("update",)))
    for owned in controller.owned:
        children = plural_of(owned.kind)
        rules.append(Rule(owned.kind.group, (children,), _WATCH))
        rules += [
            Rule(owned.kind.group, (children,), ("get", "create", "patch", "delete"), namespace=place)
            for place in owned.namespaces or ("",)
        ]
    watched = READ if controller.live is None else _WATCH
    places = _places(controller.watched)
    for kind, verbs in (
        *((watch.kind, watched) for watch in controller.watched),
        *((kind, ("get",)) for kind in controller.live or ()),
    ):
        rules += [Rule(kind.group, (plural_of(kind),), verbs, namespace=place) for place in places.get(kind, ("",))]
    rules += [
        Rule(kind.group, (plural_of(kind),), ("get",), namespace=place)
        for kind in dict.fromkeys(watch.kind for watch in controller.watched)
        for write in controller.rules
        if _writes(write, kind)
        for place in ((write.namespace,) if write.namespace else places.get(kind, ("",)))
    ]
    for kind, _ in controller.statuses:
        rules += [
            Rule(kind.group, (plural_of(kind),), ("get",)),
            Rule(kind.group, (f"{plural_of(kind)}/status",), ("patch",)),
        ]
    return merged((*rules, *controller.rules))


def _writes(rule: Rule, kind: Kind[Any]) -> bool:
    return rule.group == kind.group and plural_of(kind) in rule.resources and not _WRITES.isdisjoint(rule.verbs)


def _places(watched: Iterable[Watched]) -> dict[Kind[Any], tuple[str, ...]]:
    """Return the namespaces of each kind's watches; a kind is left out if a declaration watches it everywhere."""
    namespaces: dict[Kind[Any], set[str]] = defaultdict(set)
    for watch in watched:
        namespaces[watch.kind] |= set(watch.namespaces or ("",))
    return {kind: tuple(sorted(places)) for kind, places in namespaces.items() if "" not in places}


def may_read_live(controller: Controller[Any], kind: Kind[Any], verb: Literal["get", "list"] = "get") -> bool:
    """Return whether the declaration gives the right to get or list objects; always if it does not name the kinds of live reads."""
    if controller.live is None:
        return True
    got = (
        controller.kind,
        *(source.kind for source in controller.owned),
        *(
            (*controller.live, *(k for k, _ in controller.statuses))
            if verb == "get"
            else (source.kind for source in controller.watched)
        ),
    )
    return any(readable.group_kind == kind.group_kind for readable in got) or any(
        rule.group in (kind.group, "*")
        and not {plural_of(kind), "*"}.isdisjoint(rule.resources)
        and not {verb, "*"}.isdisjoint(rule.verbs)
        for rule in controller.rules
    )
