"""Compiled webhook configurations, and the selection of hooks for a write.

Guarantees: pure apart from reading the configurations and the request's namespace. Hooks are ordered as a server calls them: by the name
of the configuration, then as written. The rules are from k8s.io/apiserver `pkg/admission/plugin/webhook/{generic,predicates}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from konverge_testing.apiserver.admission.call import CONFIGURATIONS, AdmissionCall, Data
from konverge_testing.apiserver.admission.namespaces import NAMESPACES
from konverge_testing.apiserver.auth.rules import selects
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.statuses import not_found

__all__ = ["MUTATING", "VALIDATING", "Hook", "Hooks", "Invocation", "invocation_of"]

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = (GROUP, "mutatingwebhookconfigurations")
VALIDATING: Final = (GROUP, "validatingwebhookconfigurations")

_EVENTS: Final = (("", "events"), ("events.k8s.io", "events"))
"""Pairs of resources that matchPolicy Equivalent treats as the same resource (`pkg/controlplane/apiserver`, EquivalentResourceRegistry)."""

Kind: TypeAlias = Literal["mutating", "validating"]


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """One rule of a webhook."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str

    @classmethod
    def of(cls, data: Data) -> WebhookRule:
        """Read a rule."""
        parts = (resource.partition("/") for resource in data.get("resources") or ())
        return cls(
            frozenset(data.get("operations") or ()),
            frozenset(data.get("apiGroups") or ()),
            frozenset(data.get("apiVersions") or ()),
            tuple((plural, subresource) for plural, _, subresource in parts),
            data.get("scope") or "*",
        )

    def may_concern(self, resource: tuple[str, str], operation: str) -> bool:
        """Tell whether the rule matches a resource and operation, in any version and subresource."""
        if operation not in self.operations and "*" not in self.operations:
            return False
        if resource[0] not in self.groups and "*" not in self.groups:
            return False
        return any(plural in ("*", resource[1]) for plural, _ in self.resources)

    def matches(self, call: AdmissionCall, group: str, version: str) -> bool:
        """Tell whether the rule matches a call, seen in a group and version."""
        if not self.may_concern((group, call.resource.plural), call.operation) or not self._in_scope(call):
            return False
        if version not in self.versions and "*" not in self.versions:
            return False
        wanted = call.resource.plural, call.subresource
        return any(
            plural in ("*", wanted[0]) and subresource in ("*", wanted[1]) for plural, subresource in self.resources
        )

    def _in_scope(self, call: AdmissionCall) -> bool:
        inside = call.id != NAMESPACES and bool(call.namespace)
        return {"*": True, "Namespaced": inside, "Cluster": not inside}.get(self.scope, False)


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    kind: Kind
    configuration: str
    index: int
    rules: tuple[WebhookRule, ...]
    data: Data
    """The webhook as written in the configuration."""

    @property
    def name(self) -> str:
        """The webhook's name, part of every message."""
        return str(self.data["name"])

    @property
    def key(self) -> str:
        """Identifies the hook among all others."""
        return f"{self.configuration}/{self.name}/{self.index}"

    @property
    def ignores_failures(self) -> bool:
        """Whether the write is admitted if the call fails."""
        return bool(self.data.get("failurePolicy", "Fail") == "Ignore")

    @property
    def seconds(self) -> int:
        """The timeout of a call."""
        return int(self.data.get("timeoutSeconds", 10))


@dataclass(frozen=True, slots=True)
class Invocation:
    """A hook to call, and the group and version of the object in its review."""

    hook: Hook
    seen: tuple[str, str]


class Hooks:
    """All hooks of one kind, compiled again after a configuration has changed."""

    def __init__(self, objects: Objects, kind: Kind) -> None:
        self._objects = objects
        self._kind: Kind = kind
        self._resource = MUTATING if kind == "mutating" else VALIDATING
        self._state = -1
        self._hooks: tuple[Hook, ...] = ()
        self._concerned: dict[tuple[tuple[str, str], str], bool] = {}

    def all(self) -> tuple[Hook, ...]:
        """Return the hooks in call order."""
        state = self._objects.changed(self._resource)
        if state != self._state:
            self._state = state
            self._concerned.clear()
            self._hooks = tuple(self._compiled()) if state else ()
        return self._hooks

    def may_concern(self, resource: tuple[str, str], operation: str) -> bool:
        """Tell whether any hook might be called for such a write; cached until a configuration changes."""
        if not self.all():
            return False
        known = self._concerned.get((resource, operation))
        if known is None:
            rules = [rule for hook in self._hooks for rule in hook.rules]
            known = any(rule.may_concern(one, operation) for one in _equivalent(resource) for rule in rules)
            self._concerned[resource, operation] = known
        return known

    def _compiled(self) -> Iterator[Hook]:
        for configuration in sorted(self._objects.list(self._resource), key=_name):
            seen: dict[str, int] = {}
            for data in configuration.get("webhooks") or ():
                index = seen[data["name"]] = seen.get(data["name"], -1) + 1
                rules = tuple(WebhookRule.of(rule) for rule in data.get("rules") or ())
                yield Hook(self._kind, _name(configuration), index, rules, data)


def _name(configuration: Data) -> str:
    return str(configuration["metadata"]["name"])


def invocation_of(hook: Hook, call: AdmissionCall, objects: Objects) -> Invocation | None:
    """Return the invocation of a hook, or None if it is not called; match conditions are not evaluated yet."""
    if call.resource.group == GROUP and call.resource.plural in CONFIGURATIONS:
        return None
    seen = _seen(hook, call)
    if seen is None or not _object_selected(hook, call):
        return None
    return Invocation(hook, seen) if _namespace_selected(hook, call, objects) else None


def _seen(hook: Hook, call: AdmissionCall) -> tuple[str, str] | None:
    """Return the group and version that the rules match, or None; the request's own version is tried first."""
    own = call.resource.group, call.version
    if any(rule.matches(call, *own) for rule in hook.rules):
        return own
    if hook.data.get("matchPolicy", "Equivalent") != "Equivalent":
        return None
    others = [(own[0], each.name) for each in call.resource.versions if each.served and each.name != call.version]
    others += [(group, "v1") for group, _ in _equivalent(call.resource.name)[1:]]
    return next((seen for rule in hook.rules for seen in others if rule.matches(call, *seen)), None)


def _equivalent(resource: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return a resource and the resources of other groups that serve the same objects."""
    if resource not in _EVENTS:
        return (resource,)
    return (resource, *(other for other in _EVENTS if other != resource))


def _object_selected(hook: Hook, call: AdmissionCall) -> bool:
    selector = hook.data.get("objectSelector") or {}
    if _is_empty(selector):
        return True
    return any(selects(selector, _labels(each)) for each in (call.object, call.old) if each is not None)


def _namespace_selected(hook: Hook, call: AdmissionCall, objects: Objects) -> bool:
    selector = hook.data.get("namespaceSelector") or {}
    if _is_empty(selector) or (not call.namespace and call.id != NAMESPACES):
        return True
    if call.id == NAMESPACES and not call.subresource and call.operation in ("CREATE", "UPDATE"):
        return selects(selector, _labels(call.object or {}))
    name = call.namespace or call.name
    namespace = objects.get(NAMESPACES, "", name)
    if namespace is None:
        raise not_found("", "namespaces", name)
    return selects(selector, _labels(namespace))


def _is_empty(selector: Data) -> bool:
    return not (selector.get("matchLabels") or selector.get("matchExpressions"))


def _labels(found: Data) -> dict[str, str]:
    labels: dict[str, str] = (found.get("metadata") or {}).get("labels") or {}
    return labels
