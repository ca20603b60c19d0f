"""matchConditions of a webhook: CEL over the request, by the package `cel`.

Guarantees: pure. All conditions must hold. A false condition excludes the write, whatever the other conditions return. A condition that
fails refuses the write (failurePolicy Fail) or excludes it (Ignore). The rules are from k8s.io/apiserver
`pkg/admission/plugin/webhook/matchconditions/matcher.go`.

The variable `namespaceObject` is null, as a real server leaves it for webhooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from konverge_testing.apiserver.admission.call import AdmissionCall, Data
from konverge_testing.apiserver.admission.hooks import Hook
from konverge_testing.apiserver.auth.attributes import Attributes
from konverge_testing.apiserver.auth.rbac import Decision, listed
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import forbidden

if TYPE_CHECKING:
    from konverge_testing.apiserver.cel import Program

__all__ = ["Authorize", "conditions_hold"]

Authorize: TypeAlias = Callable[[User, Attributes], Decision]
"""Decides about the rights of a user."""


def conditions_hold(hook: Hook, call: AdmissionCall, review: Data, authorize: Authorize) -> bool:
    """Tell whether the conditions admit a call of the hook; `review` is the review that it would receive."""
    conditions = hook.data.get("matchConditions")
    if not conditions:
        return True
    # Imported only for a condition that needs it: the import is slow.
    from konverge_testing.apiserver.cel.authorizing import authorizing

    with authorizing(partial(_decided, authorize)):
        return _hold(hook, call, conditions, _values(call, review["request"]))


def _hold(hook: Hook, call: AdmissionCall, conditions: list[Data], values: Mapping[str, Any]) -> bool:
    problems: list[str] = []
    for condition in conditions:
        holds, problem = _evaluated(str(condition["expression"]), values)
        if problem:
            problems.append(problem)
        elif not holds:
            return False
    if not problems:
        return True
    if hook.ignores_failures:
        return False
    raise forbidden(call.resource.group, call.resource.plural, call.name, listed(problems))


def _values(call: AdmissionCall, request: Data) -> dict[str, Any]:
    """Return the variables: the request without its objects, which are variables themselves, and the rights of its user."""
    from konverge_testing.apiserver.cel.authorizing import authorizer_value, resource_check_value

    bare = {key: value for key, value in request.items() if key not in ("object", "oldObject", "uid")}
    attributes = {
        "group": call.resource.group,
        "resource": call.resource.plural,
        "subresource": call.subresource,
        "namespace": call.namespace,
        "name": call.name,
    }
    user = request["userInfo"]
    return {
        "object": request["object"],
        "oldObject": request["oldObject"],
        "request": {**bare, "resource": bare["requestResource"]},
        "authorizer": {**authorizer_value(user), "requestResource": resource_check_value(user, attributes)},
    }


def _decided(authorize: Authorize, user: Mapping[str, Any], asked: Mapping[str, str]) -> tuple[bool, str]:
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
    asker = User(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""), extra)
    version = "" if "path" in asked else "*"
    decision = authorize(asker, Attributes(**{"version": version, **asked}))
    return decision.allowed, decision.reason


def _evaluated(text: str, values: Mapping[str, Any]) -> tuple[bool, str]:
    from konverge_testing.apiserver.cel import (
        EvalError,
    )  # imported only for a condition that needs it: the import is slow

    try:
        return _program(text).evaluate(**values) is True, ""
    except EvalError as error:
        return False, f"expression '{text}' resulted in error: {error}"


@lru_cache(maxsize=256)
def _program(text: str) -> Program:
    from konverge_testing.apiserver.cel import Program, condition_types

    return Program(text, condition_types())
