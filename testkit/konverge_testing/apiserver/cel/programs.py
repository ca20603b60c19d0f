"""Expressions over free variables: `matchConditions` of webhooks, and other uses of CEL on plain data.

Guarantees: the constructor compiles (and imports the compiler), later calls are pure. Variables are dynamic unless types are given;
`condition_types` are the types of admission, as k8s.io/apiserver `pkg/admission/plugin/cel/compile.go` declares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from konverge_testing.apiserver.cel.errors import EvalError, TooCostly
from konverge_testing.apiserver.cel.reads import EACH, THERE, pruned, tree_of

if TYPE_CHECKING:
    from konverge_testing.apiserver.cel.kinds import CelType

__all__ = ["Program", "condition_types"]

_NO_OVERLOAD: Final = "no such overload"


@cache
def condition_types() -> Mapping[str, CelType]:
    """Return the variables of a match condition with their types."""
    from konverge_testing.apiserver.cel import kinds

    text, texts = kinds.STRING, kinds.list_of(kinds.STRING)

    def named(name: str, fields: Mapping[str, CelType]) -> CelType:
        return kinds.struct(f"kubernetes.{name}", fields)

    kind = named("GroupVersionKind", {"group": text, "version": text, "kind": text})
    resource = named("GroupVersionResource", {"group": text, "version": text, "resource": text})
    extra = kinds.map_of(text, texts)
    user = named("UserInfo", {"username": text, "uid": text, "groups": texts, "extra": extra})
    request = named(
        "AdmissionRequest",
        {
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), text),
            "userInfo": user,
            "dryRun": kinds.BOOL,
            "options": kinds.DYN,
        },
    )
    metadata = {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), text),
        **dict.fromkeys(("labels", "annotations"), kinds.map_of(text, text)),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), kinds.TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), kinds.INT),
        "finalizers": texts,
    }
    condition = named(
        "NamespaceCondition",
        {**dict.fromkeys(("status", "type", "message", "reason"), text), "lastTransitionTime": kinds.TIMESTAMP},
    )
    namespace = {
        "metadata": named("NamespaceMetadata", metadata),
        "spec": named("NamespaceSpec", {"finalizers": texts}),
        "status": named("NamespaceStatus", {"conditions": kinds.list_of(condition), "phase": text}),
    }
    check = kinds.struct("kubernetes.authorization.ResourceCheck")
    return {
        "object": kinds.DYN,
        "oldObject": kinds.DYN,
        "namespaceObject": named("Namespace", namespace),
        "request": request,
        "authorizer": kinds.struct("kubernetes.authorization.Authorizer", {"requestResource": check}),
    }


class Program:
    """A compiled expression; the constructor raises CompileError, `evaluate` raises EvalError.

    >>> Program("object.spec.replicas > 1 && request.operation == 'UPDATE'", ["object", "request"]).evaluate(
    ...     object={"spec": {"replicas": 2}}, request={"operation": "UPDATE"}
    ... )
    True
    """

    def __init__(self, expression: str, variables: Sequence[str] | Mapping[str, CelType]) -> None:
        from konverge_testing.apiserver.cel import compiling, kinds

        self.expression = expression
        self._variables = tuple(variables)
        types = variables if isinstance(variables, Mapping) else dict.fromkeys(self._variables, kinds.DYN)
        compiled = compiling.compile_text(expression, types)
        self._runs = compiled.runs
        self._reads = {name: tree_of(paths) for name, paths in compiled.reads.items()}
        self.kind = str(compiled.kind)
        """The type of the value, in CEL's notation."""

    def evaluate(self, **values: Any) -> Any:
        """Return the value; an omitted variable is null."""
        shown = {name: pruned(values.get(name), self._reads[name]) for name in self._variables}
        try:
            return self._runs.run(self._runs.activation(shown))
        except TooCostly:
            raise EvalError("operation cancelled: actual cost limit exceeded") from None
        except EvalError as error:
            field = self._field_of_null(values) if str(error) == _NO_OVERLOAD else None
            if field is None:
                raise
            raise EvalError(f"no such key: {field}") from None

    def _field_of_null(self, values: Mapping[str, Any]) -> str | None:
        """Return the field that was read of a null variable: cel-go reports a missing key, the library a missing overload."""
        fields = (name for each in self._variables if values.get(each) is None for name in self._reads[each])
        return next((name for name in fields if name not in ("", EACH, THERE)), None)
