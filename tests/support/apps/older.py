"""ApplicationInstances as users write them, conditions for them, and the CRD of an older release."""

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.apps import Settings

RAW = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance", namespaced=True, plural="applicationinstances")
SETTINGS = Settings(source_grace=timedelta(seconds=1))


def spec(namespace: str, **parts: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    return {part: value for part, value in {**whole, **parts}.items() if value is not None}


def said(type_: str, status: str, reason: str) -> Callable[[Object], bool]:
    def test(found: Object) -> bool:
        condition = found.find_condition(type_)
        fresh = found.get("status", "observedGeneration") == found.metadata.generation
        return fresh and condition is not None and (condition.status, condition.reason) == (status, reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test


READY = said("Ready", "True", "HelmReleaseReady")


def without_rules(manifest: dict[str, Any]) -> dict[str, Any]:
    """The CRD as an older release may have shipped it: the same fields, none of the rules, patterns and enums."""

    def strip(schema: Any) -> Any:
        if isinstance(schema, dict):
            dropped = {"x-kubernetes-validations", "pattern", "enum", "maxLength", "minLength", "required"}
            return {key: strip(value) for key, value in schema.items() if key not in dropped or key == "properties"}
        return [strip(value) for value in schema] if isinstance(schema, list) else schema

    older = copy.deepcopy(manifest)
    for version in older["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = strip(schema["properties"]["spec"])
        schema.pop("x-kubernetes-validations", None)
    return older
