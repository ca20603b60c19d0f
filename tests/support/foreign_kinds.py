"""Kinds of other projects, whose conditions have other fields, and a controller that writes a condition into each kind."""

from typing import Any

import pytest

import konverge as kv
from konverge.kinds import kind

GROUP = "foreign.example.com"
TEXT = {"type": "string"}
PLAIN = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), TEXT)
PROBED = {**PLAIN, "lastProbeTime": TEXT}
USE = {"type": "object", "additionalProperties": TEXT}
META = {**PLAIN, "observedGeneration": {"type": "integer"}}
BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}

DEPLOYMENT = kind("apps/v1", "Deployment")
JOB = kind("batch/v1", "Job")
POD = kind("v1", "Pod")
CONTAINERS = {"containers": [{"name": "a", "image": "example.com/a"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {**CONTAINERS, "restartPolicy": "Never"}}
OTHERS = {
    "type": "Theirs",
    "status": "True",
    "reason": "Said",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def definition(name: str, of_condition: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
    entry = {"type": "object", "required": ["type", "status"], "properties": of_condition}
    fields = {"conditions": {"type": "array", "items": entry, **hints}, "phase": TEXT, "use": USE}
    status = {"type": "object", "properties": fields}
    plural = f"{name.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": name, "plural": plural},
            "versions": [version],
        },
    }


KEYED, LISTED, WHOLE = (kind(f"{GROUP}/v1", name) for name in ("Keyed", "Listed", "Whole"))
CRDS = [
    definition("Keyed", PROBED, BY_TYPE),
    definition("Listed", META, {}),
    definition("Whole", PLAIN, {"x-kubernetes-list-type": "atomic"}),
]
SELECTOR = {"selector": {"matchLabels": {"a": "b"}}, "template": {**TEMPLATE, "spec": CONTAINERS}}
OBJECTS = [
    pytest.param(DEPLOYMENT, {"spec": SELECTOR}, id="Deployment"),
    pytest.param(JOB, {"spec": {"template": TEMPLATE}}, id="Job"),
    pytest.param(POD, {"spec": CONTAINERS}, id="Pod"),
    pytest.param(KEYED, {}, id="by type, without observedGeneration"),
    pytest.param(LISTED, {}, id="a plain list"),
    pytest.param(WHOLE, {}, id="an atomic list without observedGeneration"),
]


async def says_it(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
    ctx.status.set_condition("Seen", True, "Looked", "it was seen")
    return kv.Done()
