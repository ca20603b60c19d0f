"""The rights of the lab's managers in memory: each manager has an account of its own with exactly the rules that it declares.

Guarantees: the API server refuses every other request with 403, as a cluster with the roles of `konverge rbac` does, and each refused
request is a finding that names the missing rule. No role and no binding is stored.

Caveats: a manager without settings of the test has its rules in every namespace, since its namespace is the lab's choice. A manager that is
started with a `config` keeps the rights of that configuration's user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from konverge.errors import Forbidden
from konverge.runtime import Manager
from konverge.runtime.manager.roles import roles_for
from konverge_testing.apiserver.auth import Attributes
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import StatusError

if TYPE_CHECKING:
    from konverge_testing.memory_server import ApiServer

__all__ = ["Account", "Rights", "missing_rule_words"]

_ACCOUNT: Final = "system:serviceaccount"


@dataclass(frozen=True, slots=True)
class Account:
    """The user of one manager, and the namespace that its rules are limited to ("": all namespaces)."""

    user: User
    namespace: str


class Rights:
    """The accounts of one lab's managers; `missing` takes the error and the finding of each request that no declared rule allows."""

    def __init__(self, server: ApiServer, missing: Callable[[Forbidden, str], None]) -> None:
        self._server = server
        self._missing = missing
        self._managers: dict[str, str] = {}
        server.rbac.on_refusal.append(self._refused)

    def new_user(self, namespace: str, name: str) -> User:
        """Return the user of a new account for a manager of this name."""
        user, number = f"{_ACCOUNT}:{namespace}:{name}", 1
        while user in self._managers:
            number += 1
            user = f"{_ACCOUNT}:{namespace}:{name}-{number}"
        self._managers[user] = name
        return User(user, (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", "system:authenticated"))

    def grant(self, account: Account, manager: Manager) -> None:
        """Set an account's rules: the rules of its manager."""
        self._server.rbac.grant(account.user.name, roles_for(manager.name, manager.rules(), account.namespace))

    def _refused(self, user: User, wanted: Attributes, error: StatusError) -> None:
        if (manager := self._managers.get(user.name)) is not None:
            forbidden = Forbidden(error.message, status=403, reason="Forbidden")
            self._missing(forbidden, missing_rule_words(manager, wanted))


def missing_rule_words(manager: str, wanted: Attributes) -> str:
    """Return the finding about a request that no declared rule allows, with the declaration that allows it.

    >>> words = missing_rule_words("shop", Attributes("patch", "apps", "v1", "deployments", "scale", "web", "front"))
    >>> '.needs(kv.Rule("apps", ("deployments/scale",), ("patch",)))' in words
    True
    """
    if not wanted.is_resource:
        return (
            f"manager {manager!r} declares no rule for {wanted.verb} of {wanted.path}, so a cluster refuses it with 403"
        )
    resource = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    place = f"in namespace {wanted.namespace}" if wanted.namespace else "at the cluster scope"
    rule = f'kv.Rule("{wanted.group}", ("{resource}",), ("{wanted.verb}",))'
    return (
        f'manager {manager!r} declares no rule for {wanted.verb} of {resource} (group "{wanted.group}") {place}, so a cluster refuses it '
        f"with 403: add .needs({rule}) to the controller, webhook or manager; lab.start(build, rbac=False) allows everything"
    )
