"""RBAC authorization: Roles, ClusterRoles and their bindings, compiled once for every state of them.

Guarantees: `allows` decides as the RBAC authorizer does (with the group system:masters before it), reasons included; if several bindings
allow the same, the first by name is reported (upstream's order is random, by a Go map). Aggregated ClusterRoles have the rules of
the roles that they select, whether or not a controller has written them. Any change of an object counts from the next check on.

The rules are those of Kubernetes' `plugin/pkg/auth/authorizer/rbac/rbac.go` and `pkg/registry/rbac/validation/rule.go`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.auth.attributes import Attributes, refusal
from konverge_testing.apiserver.auth.bootstrap import bootstrap_objects
from konverge_testing.apiserver.auth.rules import PolicyRule, aggregated
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["GROUP", "MASTERS", "Decision", "Rbac", "listed"]

GROUP: Final = "rbac.authorization.k8s.io"
MASTERS: Final = "system:masters"

Data: TypeAlias = dict[str, Any]

_ROLES: Final = (GROUP, "roles")
_BINDINGS: Final = (GROUP, "rolebindings")
_CLUSTER_ROLES: Final = (GROUP, "clusterroles")
_CLUSTER_BINDINGS: Final = (GROUP, "clusterrolebindings")
_ACCOUNT: Final = "system:serviceaccount:"
_OF_EVERYBODY: Final = ("system:basic-user", "system:discovery", "system:public-info-viewer")
"""The ClusterRoles that bootstrap bindings give to every authenticated user."""
_REMEMBERED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the request is allowed; `reason` names the binding, or the errors of bindings."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Grant:
    """One binding for one of its subjects: the rules, or (`problem`) why it has none."""

    place: tuple[str, str]
    position: int
    source: str
    rules: tuple[PolicyRule, ...]
    problem: str = ""


def _given_by(role: Data) -> tuple[str, _Grant]:
    """Return the namespace and the rules that a role gives without a binding."""
    namespace, name = role["metadata"].get("namespace", ""), role["metadata"]["name"]
    rules = tuple(PolicyRule.of(rule) for rule in role.get("rules") or ())
    shown = f"{name}/{namespace}" if namespace else name
    return namespace, _Grant((namespace, name), 0, f"{role['kind']} {quoted(shown)}", rules)


@cache
def _given_to_everybody() -> tuple[tuple[str, _Grant], ...]:
    """Return what each authenticated user has: compiled once, since each manager of each lab is such a user."""
    return tuple(_given_by(role) for role in bootstrap_objects() if role["metadata"]["name"] in _OF_EVERYBODY)


def listed(problems: list[str]) -> str:
    """Format errors as Go's aggregate does: a single error bare, several errors in brackets, each once."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


class Rbac:
    """The authorizer over the stored objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._state: tuple[int, ...] = ()
        self._grants: dict[tuple[str, str, str], list[_Grant]] = {}
        self._remembered: dict[tuple[str, tuple[str, ...], Attributes], Decision] = {}
        self._given: dict[str, list[tuple[str, _Grant]]] = {}
        self.on_refusal: list[Callable[[User, Attributes, StatusError], None]] = []
        """Called with each refusal of `require`."""

    def grant(self, user: str, roles: Iterable[Data]) -> None:
        """Give a user the rules of these roles, and the rights of every authenticated user, without storing a role or a binding.

        The rules replace the rules of an earlier call. The user is restricted from now on, also by a server without authorization.
        """
        self._given[user] = [*_given_to_everybody(), *map(_given_by, roles)]
        self._remembered.clear()

    def restricts(self, user: User) -> bool:
        """Return whether a user has rights by `grant`."""
        return user.name in self._given

    def allows(self, user: User, attributes: Attributes) -> Decision:
        """Tell whether a user may do something."""
        if MASTERS in user.groups:
            return Decision(True)
        self._refresh()
        key = (user.name, user.groups, attributes)
        decision = self._remembered.get(key)
        if decision is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            decision = self._remembered[key] = self._decide(user, attributes)
        return decision

    def require(self, user: User, attributes: Attributes, *, why: str | None = None) -> None:
        """Raise the server's 403 if a user may not do something; `why` replaces the explanation in its message."""
        decision = self.allows(user, attributes)
        if not decision.allowed:
            error = refusal(user, attributes, decision.reason, why=why)
            for listener in self.on_refusal:
                listener(user, attributes, error)
            raise error

    def rules_for(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """Return the rules of a user in a namespace ("": cluster-wide rules only), and the errors of unresolved bindings."""
        self._refresh()
        grants = list(self._rules_of(user, namespace))
        return [rule for grant in grants for rule in grant.rules], [grant.problem for grant in grants if grant.problem]

    def rules_of(self, reference: Data, namespace: str) -> tuple[list[PolicyRule], str]:
        """Return the rules of the role that a binding refers to, or the error of the reference."""
        kind, name = reference.get("kind", ""), str(reference.get("name", ""))
        if kind == "Role":
            return self._role(self._objects.get(_ROLES, namespace, name), "roles", name)
        if kind != "ClusterRole":
            return [], f"unsupported role reference kind: {quoted(kind)}"
        role = self._objects.get(_CLUSTER_ROLES, "", name)
        if role is not None and role.get("aggregationRule"):
            role["rules"] = aggregated(role, self._objects.list(_CLUSTER_ROLES))
        return self._role(role, "clusterroles", name)

    @staticmethod
    def _role(role: Data | None, plural: str, name: str) -> tuple[list[PolicyRule], str]:
        if role is None:
            return [], f"{plural.removesuffix('s')}.{GROUP} {quoted(name)} not found"
        return [PolicyRule.of(rule) for rule in role.get("rules") or ()], ""

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        problems: list[str] = []
        for grant in self._rules_of(user, attributes.namespace):
            if any(rule.allows(attributes) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
            if grant.problem:
                problems.append(grant.problem)
        return Decision(False, f"RBAC: {listed(problems)}" if problems else "")

    def _rules_of(self, user: User, namespace: str) -> Iterator[_Grant]:
        """Yield the bindings of a user, cluster-wide bindings first; a binding appears once, even if several of its subjects match."""
        yield from (grant for place, grant in self._given.get(user.name, ()) if place in ("", namespace))
        for place in ("", namespace) if namespace else ("",):
            found = [*self._grants.get((place, "User", user.name), ())]
            for group in user.groups:
                found += self._grants.get((place, "Group", group), ())
            best: dict[tuple[str, str], _Grant] = {}
            for grant in found:
                if grant.place not in best or grant.position < best[grant.place].position:
                    best[grant.place] = grant
            yield from (best[key] for key in sorted(best))

    # -- compiling ---------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        changed = self._objects.changed
        state = (changed(_ROLES), changed(_BINDINGS), changed(_CLUSTER_ROLES), changed(_CLUSTER_BINDINGS))
        if state != self._state:
            self._state = state
            self._remembered.clear()
            self._compile()

    def _compile(self) -> None:
        self._grants = defaultdict(list)
        for binding in self._objects.list(_CLUSTER_BINDINGS):
            self._add(binding, "", "ClusterRoleBinding")
        for binding in self._objects.list(_BINDINGS):
            self._add(binding, str(binding["metadata"]["namespace"]), "RoleBinding")

    def _add(self, binding: Data, namespace: str, kind: str) -> None:
        name, reference = str(binding["metadata"]["name"]), binding["roleRef"]
        rules, problem = self.rules_of(reference, namespace)
        shown = f"{name}/{namespace}" if namespace else name
        bound = f"{kind} {quoted(shown)} of {reference['kind']} {quoted(reference['name'])}"
        for position, subject in enumerate(binding.get("subjects") or ()):
            key, who = _subject(subject, namespace)
            grant = _Grant((namespace, name), position, f"{bound} to {who}", tuple(rules), problem)
            self._grants[namespace, *key].append(grant)


def _subject(subject: Data, namespace: str) -> tuple[tuple[str, str], str]:
    """Return the kind and name of a user's subject, and the subject's text in messages."""
    kind, name = str(subject["kind"]), str(subject["name"])
    if kind != "ServiceAccount":
        return (kind, name), f"{kind} {quoted(name)}"
    home = subject.get("namespace") or namespace
    return ("User", f"{_ACCOUNT}{home}:{name}"), f"{kind} {quoted(f'{name}/{home}')}"
