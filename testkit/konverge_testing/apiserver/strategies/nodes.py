"""Node.

The taint that admission gives to new nodes is added here, too. Source: `pkg/apis/core/validation/validation.go`,
`pkg/registry/core/node/strategy.go`, `plugin/pkg/admission/nodetaint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies.addresses import cidr_errors
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid
from konverge_testing.apiserver.strategies.pods.scheduling import taint_effect
from konverge_testing.apiserver.strategies.rules import at, each, need, text

__all__ = ["Node"]

_UNREADY: Final = "node.kubernetes.io/not-ready"


class Node(BuiltInStrategy):
    """Node: its status can be set at creation, since kubelets register themselves this way."""

    has_status = True
    status_on_create = True
    selectable: Mapping[str, Any] = {"spec.unschedulable": False}

    def _default(self, new: Data) -> None:
        status, spec = new.setdefault("status", {}), new.setdefault("spec", {})
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def _create(self, new: Data) -> None:
        self._default(new)
        taints = new["spec"].get("taints") or []
        if not any((taint.get("key"), taint.get("effect")) == (_UNREADY, "NoSchedule") for taint in taints):
            new["spec"]["taints"] = [*taints, {"key": _UNREADY, "effect": "NoSchedule"}]

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        taints, amounts = _taint_errors(spec.get("taints") or [], "metadata.taints"), at("status", _amounts)(new, "")
        if old is not None:
            return amounts + _change_errors(spec, old.get("spec") or {}) + taints
        return taints + amounts + at("podCIDRs", each(cidr_errors))(spec, "spec")

    def _status_errors(self, new: Data, old: Data) -> Errors:
        return self._errors(new, old)


def _amounts(status: Data | None, path: str) -> Errors:
    return [
        error
        for kind in ("capacity", "allocatable")
        for name, value in ((status or {}).get(kind) or {}).items()
        for error in amount_errors(name, value, f"{path}.{kind}.{name}")
    ]


_key: Final = at("key", text(names.label_key))
_effect: Final = need("effect", taint_effect)


def _taint_errors(taints: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, (key, value, effect) = f"{path}[{index}]", (taint.get(name, "") for name in ("key", "value", "effect"))
        errors += _key(taint, here)
        if problems := names.label_value(value):
            errors.append(invalid(f"{here}.value", value, ";".join(problems)))
        errors += _effect(taint, here)
        if (effect, key) in seen:
            shown = Struct(Key=key, Value=value, Effect=effect, TimeAdded=taint.get("timeAdded"))
            errors.append(FieldError("Duplicate", here, shown, "taints must be unique by key and effect pair"))
        seen.add((effect, key))
    return errors


def _change_errors(new: Data, old: Data) -> Errors:
    errors: Errors = []
    words = 'node updates may not change {} except from "" to valid'
    before = old.get("podCIDRs") or []
    if before and before != (new.get("podCIDRs") or []):
        errors.append(forbidden("spec.podCIDRs", words.format("podCIDR")))
    if old.get("providerID") and old["providerID"] != new.get("providerID"):
        errors.append(forbidden("spec.providerID", words.format("providerID")))
    if old.get("externalID") != new.get("externalID"):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors
