"""Warnings for node labels in pods: renamed labels, and values that are invalid for labels.

Guarantees: pure. Source: `pkg/api/node/util.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.errors import Data
from konverge_testing.apiserver.strategies.pods.scheduling import PREFERRED, REQUIRED

__all__ = ["node_label_warnings"]

_DEPRECATED: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def node_label_warnings(spec: Data, path: str) -> list[str]:
    """Return the warnings for the node selector, the node affinity and the spread of a pod."""
    found = [
        f"{path}.nodeSelector[{key}]: {_DEPRECATED[key]}"
        for key in spec.get("nodeSelector") or {}
        if key in _DEPRECATED
    ]
    affinity, here = (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        found += _term(term, f"{here}.{REQUIRED}.nodeSelectorTerms[{index}]", values=False)
    for index, each in enumerate(affinity.get(PREFERRED) or ()):
        found += _term(each.get("preference") or {}, f"{here}.{PREFERRED}[{index}].preference", values=True)
    for index, each in enumerate(spec.get("topologySpreadConstraints") or ()):
        where = f"{path}.topologySpreadConstraints[{index}]"
        if (key := each.get("topologyKey", "")) in _DEPRECATED:
            found.append(f"{where}.topologyKey: {key} is {_DEPRECATED[key]}")
        if "labelSelector" not in each:
            found.append(f"{where}.labelSelector: a null labelSelector results in matching no pod")
    return found


def _term(term: Data, path: str, *, values: bool) -> Iterator[str]:
    for index, each in enumerate(term.get("matchExpressions") or ()):
        here, key = f"{path}.matchExpressions[{index}]", each.get("key", "")
        if key in _DEPRECATED:
            yield f"{here}.key: {key} is {_DEPRECATED[key]}"
        for number, value in enumerate(each.get("values") or () if values else ()):
            for text in names.label_value(value):
                yield f"{here}.values[{number}]: {value} is invalid, {text}"
