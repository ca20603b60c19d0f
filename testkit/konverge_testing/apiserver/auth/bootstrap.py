"""The roles and bindings that every API server creates for itself, as recorded from Kubernetes 1.36.3.

Guarantees: pure; fresh objects with every call. They have only the fields that a client may write (no uid, version or times). Aggregating
ClusterRoles have the rules that the controller would write. The file beside this module is recorded by
`tools/record/admission/recorder.py`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

from konverge_testing.apiserver.auth.rules import aggregated

__all__ = ["bootstrap_objects"]

Data: TypeAlias = dict[str, Any]


def bootstrap_objects() -> list[Data]:
    """Return ClusterRoles, ClusterRoleBindings, Roles and RoleBindings, ready to be stored."""
    made: list[Data] = msgspec.json.decode(_aggregated_roles())
    return made


@cache
def _aggregated_roles() -> bytes:
    """Aggregate once a process, since tests start many servers; as JSON, so that each server decodes objects of its own."""
    found: list[Data] = json.loads(files(__package__).joinpath("bootstrap.json").read_bytes())
    roles = [each for each in found if each["kind"] == "ClusterRole"]
    filled = {each["metadata"]["name"]: rules for each in roles if (rules := aggregated(each, roles)) is not None}
    for each in roles:
        each["rules"] = filled.get(each["metadata"]["name"], each.get("rules"))
    return msgspec.json.encode(found)
