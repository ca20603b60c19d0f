"""RBAC rules as data, and what a controller needs from what it declares.

Guarantees: `rules_of` names every right that the runtime itself uses for a controller; what a reconciler reads live or patches
beyond that is declared with `Controller.needs(...)`. Plurals are those of the kind if it declares them, else guessed as
apimachinery `meta.UnsafeGuessKindToResource` does; a running manager asks the API server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from konverge.kinds import Kind

if TYPE_CHECKING:
    from konverge.runtime.builder.builder import Controller, Watched

__all__ = ["Rule", "cluster_role", "may_read_live", "merged", "narrowed_roles", "plural_of", "rules_of"]

READ = ("get", "list", "watch")
_WATCH = ("list", "watch")  # `list` for API servers that do not stream the first list


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule: these verbs on these resources of this group ("" is the core group), by name where `names` are given.

    >>> Rule("", ("secrets",), ("get",)).to_dict()
    {'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""
    """The namespace in which alone it is needed; empty: wherever the manager watches."""
    cluster_wide: bool = False
    """Whether its resources belong to no namespace, so that it takes a ClusterRole even if one namespace is watched."""

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as rbac.authorization.k8s.io/v1 writes it."""
        rule: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule


def plural_of(kind: Kind[Any]) -> str:
    """Return the kind's plural as it declares it, else the guess that Kubernetes itself makes."""
    if kind.plural:
        return kind.plural
    word = kind.kind.lower()
    if word.endswith("endpoints"):
        return word
    if word.endswith("s"):
        return word + "es"
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + "s"


def rules_of(controller: Controller[Any]) -> tuple[Rule, ...]:
    """Return the rights that the runtime uses on behalf of this controller, and those that it declared.

    The runtime itself gets objects of the kinds that it writes: before the first apply of a child, and if a cache cannot tell whether it
    shows a write. So only a kind that is watched and not written can do without `get`.
    """
    primary, group = plural_of(controller.kind), controller.kind.group
    rules = [
        Rule(group, (primary,), (*READ, "patch") if controller.finalizer_name else READ),
        Rule(group, (f"{primary}/status",), ("patch",)),
        Rule("events.k8s.io", ("events",), ("create", "patch")),
    ]
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
    for kind, _ in controller.statuses:
        rules += [
            Rule(kind.group, (plural_of(kind),), ("get",)),
            Rule(kind.group, (f"{plural_of(kind)}/status",), ("patch",)),
        ]
    return merged((*rules, *controller.rules))


def _places(watched: Iterable[Watched]) -> dict[Kind[Any], tuple[str, ...]]:
    """Return the namespaces in which a kind is watched; a kind that one declaration watches everywhere is left out."""
    found: dict[Kind[Any], set[str]] = defaultdict(set)
    for watch in watched:
        found[watch.kind] |= set(watch.namespaces or ("",))
    return {kind: tuple(sorted(places)) for kind, places in found.items() if "" not in places}


def may_read_live(controller: Controller[Any], kind: Kind[Any], verb: Literal["get", "list"] = "get") -> bool:
    """Return whether the controller's declaration gives the right to get or list objects; always if it does not say what is read live."""
    if controller.live is None:
        return True
    got = (
        controller.kind,
        *(one.kind for one in controller.owned),
        *(
            (*controller.live, *(k for k, _ in controller.statuses))
            if verb == "get"
            else (one.kind for one in controller.watched)
        ),
    )
    return any(one.group_kind == kind.group_kind for one in got) or any(
        rule.group in (kind.group, "*")
        and not {plural_of(kind), "*"}.isdisjoint(rule.resources)
        and not {verb, "*"}.isdisjoint(rule.verbs)
        for rule in controller.rules
    )


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the same rights with one rule for each resource, and resources of equal verbs in one rule; sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...], str, bool], set[str]] = defaultdict(set)
    for rule in rules:
        for resource in rule.resources:
            verbs[rule.group, resource, rule.names, rule.namespace, rule.cluster_wide] |= set(rule.verbs)
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...], str, bool], list[str]] = defaultdict(list)
    for (group, resource, names, namespace, wide), allowed in verbs.items():
        together[group, tuple(sorted(allowed)), names, namespace, wide].append(resource)
    return tuple(
        Rule(group, tuple(sorted(resources)), allowed, names, namespace, wide)
        for (group, allowed, names, namespace, wide), resources in sorted(
            together.items(), key=lambda item: (item[0][0], item[1], item[0])
        )
    )


def cluster_role(name: str, rules: Iterable[Rule], *, namespace: str = "") -> dict[str, Any]:
    """Return a ClusterRole, or a Role if a namespace is given.

    Left out are rules that are needed in another namespace alone, and of a Role those of cluster-wide resources.
    """
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    held = (rule for rule in rules if rule.namespace in ("", namespace) and not (namespace and rule.cluster_wide))
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": [rule.to_dict() for rule in merged(held)],
    }


def narrowed_roles(name: str, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Return a Role for each namespace in which alone some of these rules are needed: what `cluster_role` leaves out."""
    found: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        if rule.namespace:
            found[rule.namespace].append(rule)
    return [cluster_role(name, found[namespace], namespace=namespace) for namespace in sorted(found)]
