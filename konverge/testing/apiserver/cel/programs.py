"""Expressions over free variables: `matchConditions` of webhooks, and whatever else asks CEL about plain data.

Guarantees: compiled when it is made (what compiles is imported then), pure afterwards. Variables are dynamic. Not promised: the authorizer
library (a real server offers it to match conditions), nor types of `request`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from konverge.testing.apiserver.cel.reads import pruned, tree_of

__all__ = ["Program"]


class Program:
    """A compiled expression; raises CompileError when it is made, EvalError when it is evaluated.

    >>> Program("object.spec.replicas > 1 && request.operation == 'UPDATE'", ["object", "request"]).evaluate(
    ...     object={"spec": {"replicas": 2}}, request={"operation": "UPDATE"}
    ... )
    True
    """

    def __init__(self, expression: str, variables: Sequence[str]) -> None:
        from konverge.testing.apiserver.cel import compiling, kinds

        self.expression = expression
        self._variables = tuple(variables)
        compiled = compiling.compile_text(expression, dict.fromkeys(self._variables, kinds.DYN))
        self._runs = compiled.runs
        self._reads = {name: tree_of(paths) for name, paths in compiled.reads.items()}
        self.kind = str(compiled.kind)
        """The type of the value, as CEL writes it."""

    def evaluate(self, **values: Any) -> Any:
        """Return the value; a variable that is not given is null."""
        shown = {name: pruned(values.get(name), self._reads[name]) for name in self._variables}
        return self._runs.run(self._runs.activation(shown))
