"""Edits of an NstanceMachinePool whose group is static, which the API server itself must accept or reject, on either server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from crd_cases import Case, Table

from konverge.crds.machines_v1beta1 import GROUP, NstanceMachinePool

SPEC: Final[dict[str, Any]] = {
    "group": "workers",
    "template": "std",
    "shards": ["a", "b"],
    "subnets": ["private"],
    "vars": {"x": "1"},
}
_STATIC: Final[dict[str, Any]] = {"isStatic": True, "template": "std", "subnets": ["private"]}


@dataclass(frozen=True)
class Edit:
    """A change of the spec of a stored pool; `refused` is the field in the error, "" if the change is accepted."""

    change: dict[str, Any]
    refused: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    """Changes of the spec before."""
    status: dict[str, Any] = field(default_factory=lambda: _STATIC)


WRONG: Final = {"template": "gpu", "subnets": ["public"]}
MANY: Final = [f"s{number}" for number in range(64)]
CASES: Final = {
    "another template": Edit({"template": "gpu"}, "spec.template"),
    "no template": Edit({"template": None}, "spec.template"),
    "a template for the first time": Edit({"template": "gpu"}, "spec.template", {"template": None}),
    "the template of the servers": Edit({"template": "std"}, "", {"template": None}),
    "a wrong template is set right": Edit({"template": "std"}, "", WRONG),
    "a wrong template is taken out": Edit({"template": None}, "", WRONG),
    "a wrong template becomes another": Edit({"template": "arm"}, "spec.template", WRONG),
    "other subnets": Edit({"subnets": ["public"]}, "spec.subnets"),
    "no subnets": Edit({"subnets": None}, "spec.subnets"),
    "wrong subnets are set right": Edit({"subnets": ["private"]}, "", WRONG),
    "wrong subnets are taken out": Edit({"subnets": None}, "", WRONG),
    "wrong subnets become others": Edit({"subnets": ["third"]}, "spec.subnets", WRONG),
    "a shard less": Edit({"shards": ["a"]}, "spec.shards"),
    "a shard more": Edit({"shards": ["a", "b", "c"]}, "spec.shards"),
    "the shards in another order": Edit({"shards": ["b", "a"]}),
    "the most shards in another order": Edit({"shards": MANY[::-1]}, "", {"shards": MANY}),
    "another instance type and other vars": Edit({"instanceType": "c7", "vars": None}),
    "provider ids": Edit({"providerIDList": ["i-0a"]}),
    "a template without a status": Edit({"template": "gpu", "shards": ["c"]}, "", {}, {}),
    "a template of a dynamic group": Edit({"template": "gpu", "shards": ["c"]}, "", {}, {**_STATIC, "isStatic": False}),
    "a template that no status shows": Edit({"template": "gpu"}, "spec.template", {}, {"isStatic": True}),
}


def _set(spec: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**spec, **change}.items() if value is not None}


def case_of(edit: Edit) -> Case:
    """Return an edit as a case."""
    kind = {"apiVersion": f"{GROUP}/v1beta1", "kind": "NstanceMachinePool", "metadata": {"name": "workers"}}
    before = _set(SPEC, edit.spec)
    return Case({**kind, "spec": before}, edit.refused, {"spec": _set(before, edit.change)}, edit.status)


TABLE: Final = Table(
    (NstanceMachinePool,),
    {name: case_of(edit) for name, edit in CASES.items()},
    [case_of(CASES["another template"])],
)
