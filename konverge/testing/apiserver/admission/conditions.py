"""matchConditions of a webhook: CEL over the request, by the room `cel`.

Guarantees: pure. All conditions must hold; one that is false excludes the write whatever the others say; one that fails refuses it
(failurePolicy Fail) or excludes it (Ignore). The rules are those of k8s.io/apiserver
`pkg/admission/plugin/webhook/matchconditions/matcher.go`.

Caveats: without the variable `authorizer`; a condition that names it is a 501.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from konverge.testing.apiserver.admission.call import AdmissionCall, Data
from konverge.testing.apiserver.admission.hooks import Hook
from konverge.testing.apiserver.auth.rbac import listed
from konverge.testing.apiserver.statuses import forbidden, not_implemented

if TYPE_CHECKING:
    from konverge.testing.apiserver.cel import Program

__all__ = ["conditions_hold"]

_AUTHORIZER: Final = re.compile(r"\bauthorizer\b")
_VARIABLES: Final = ("object", "oldObject", "request")


def conditions_hold(hook: Hook, call: AdmissionCall, review: Data) -> bool:
    """Tell whether the conditions let a hook be asked; `review` is what it would be sent."""
    conditions = hook.data.get("matchConditions")
    if not conditions:
        return True
    request = review["request"]
    values = {"object": request["object"], "oldObject": request["oldObject"], "request": _bare(request)}
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


def _bare(request: Data) -> Data:
    """Return the request as CEL sees it: without the objects, which have names of their own."""
    return {key: value for key, value in request.items() if key not in ("object", "oldObject", "uid")}


def _evaluated(text: str, values: Mapping[str, Any]) -> tuple[bool, str]:
    from konverge.testing.apiserver.cel import (
        EvalError,
    )  # imported only for a condition that needs it: the import is slow

    if _AUTHORIZER.search(text):
        raise not_implemented("the variable authorizer in matchConditions")
    try:
        return _program(text).evaluate(**values) is True, ""
    except EvalError as error:
        return False, f"expression '{text}' resulted in error: {error}"


@lru_cache(maxsize=256)
def _program(text: str) -> Program:
    from konverge.testing.apiserver.cel import Program

    return Program(text, _VARIABLES)
