"""CEL as kube-apiserver evaluates it: validation rules of CustomResourceDefinitions, and expressions of admission.

Guarantees: the CEL library is not imported before the first expression is compiled; if it is absent, an ImportError names the extra
`konverge[testing]`. `validators.py` walks objects; `compiling.py` compiles expressions: `syntax.py` reads the library's syntax trees,
`checker.py` checks its types as Kubernetes does, `rewrite.py` adds Kubernetes' extensions, `functions.py` implements their functions.
"""

from __future__ import annotations

from konverge_testing.apiserver.cel.errors import CompileError, EvalError
from konverge_testing.apiserver.cel.programs import Program, condition_types
from konverge_testing.apiserver.cel.rules import (
    Findings,
    check_rules,
    compile_message,
    compile_rule,
    rule_cost,
    uses_old_self,
    validate_rules,
)

__all__ = [
    "CompileError",
    "EvalError",
    "Findings",
    "Program",
    "check_rules",
    "compile_message",
    "compile_rule",
    "condition_types",
    "rule_cost",
    "uses_old_self",
    "validate_rules",
]
