"""How helm-controller puts values together: `valuesFrom` in order, then inline `values`.

Its errors name the reference and continue with the parser's own text, which may quote the values, so readers must not pass them on. The
stand-in's errors quote values too, so that tests notice a leak.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from konverge_testing.flux.state import ClusterView, Object_

__all__ = ["ValuesError", "compose"]


class ValuesError(Exception):
    """The values cannot be composed; the message has the reason."""


def compose(spec: Object_, namespace: str, view: ClusterView) -> Object_:
    """Return the merged values of a release; raises ValuesError."""
    values: Object_ = {}
    for reference in spec.get("valuesFrom") or ():
        values = _merged(values, _referred(reference, namespace, view))
    return _merged(values, spec.get("values") or {})


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Object_:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _referred(reference: Object_, namespace: str, view: ClusterView) -> Object_:
    kind, name, key = reference["kind"], reference["name"], reference.get("valuesKey") or "values.yaml"
    where = f"could not resolve {kind} chart values reference '{namespace}/{name}' with key '{key}'"
    result = view.find(kind, namespace, name)
    if result is None:
        raise ValuesError(f'{where}: {kind.lower()}s "{name}" not found')
    data = result.get("data") or {}
    if key not in data:
        raise ValuesError(f"{where}: key not found")
    text = base64.b64decode(data[key]).decode() if kind == "Secret" else str(data[key])
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValuesError(f"{where}: error converting YAML to JSON: yaml: {error}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise ValuesError(f"{where}: cannot unmarshal {text!r} into a map of values")
    return parsed
