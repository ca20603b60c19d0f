"""The roles and bindings that every API server makes for itself, as a real one (Kubernetes 1.36.3) showed them.

Promises: pure; fresh objects with every call. They carry what a client may write (no uid, version or times). ClusterRoles that aggregate
have no rules of their own: `Rbac` evaluates them. The file beside this module is recorded by `tests/support/record_admission.py
bootstrap`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, TypeAlias

__all__ = ["bootstrap_objects"]

Data: TypeAlias = dict[str, Any]


def bootstrap_objects() -> list[Data]:
    """Return ClusterRoles, ClusterRoleBindings, Roles and RoleBindings, whole and ready to be stored."""
    found: list[Data] = json.loads(files(__package__).joinpath("bootstrap.json").read_bytes())
    return found
