"""Node.

The taint that admission gives to new nodes is added here, too. Source: `pkg/apis/core/validation/validation.go`,
`pkg/registry/core/node/strategy.go`, `plugin/pkg/admission/nodetaint`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies.addresses import cidr_errors
from konverge_testing.apiserver.strategies.amounts import amount_errors
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    invalid,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.pods.scheduling import taint_effect_errors

__all__ = ["Node"]


_UNREADY: Final = "node.kubernetes.io/not-ready"


class Node(BuiltInStrategy):
    """A machine. Its status may be set when it is created, since kubelets register themselves so."""

    has_status = True
    status_on_create = True

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
        taints = _taint_errors(spec.get("taints") or [], "metadata.taints")
        if old is not None:
            return _amounts(new) + _change_errors(spec, old.get("spec") or {}) + taints
        errors = taints + _amounts(new)
        for index, block in enumerate(spec.get("podCIDRs") or ()):
            errors += cidr_errors(block, f"spec.podCIDRs[{index}]")
        return errors

    def _status_errors(self, new: Data, old: Data) -> Errors:
        return self._errors(new, old)

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"spec.unschedulable": "true" if (object_.get("spec") or {}).get("unschedulable") else "false"}


def _amounts(new: Data) -> Errors:
    status = new.get("status") or {}
    return [
        error
        for kind in ("capacity", "allocatable")
        for name, value in (status.get(kind) or {}).items()
        for error in amount_errors(name, value, f"status.{kind}.{name}")
    ]


def _taint_errors(taints: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, value, effect = (
            f"{path}[{index}]",
            taint.get("key", ""),
            taint.get("value", ""),
            taint.get("effect", ""),
        )
        errors += text_errors(f"{here}.key", key, names.label_key)
        if found := names.label_value(value):
            errors.append(invalid(f"{here}.value", value, ";".join(found)))
        errors += taint_effect_errors(effect, f"{here}.effect") if effect else [required(f"{here}.effect")]
        if (effect, key) in seen:
            shown = Struct(Key=key, Value=value, Effect=effect, TimeAdded=taint.get("timeAdded"))
            errors.append(FieldError("Duplicate", here, shown, "taints must be unique by key and effect pair"))
        seen.add((effect, key))
    return errors


def _change_errors(new: Data, old: Data) -> Errors:
    errors: Errors = []
    before, now = old.get("podCIDRs") or [], new.get("podCIDRs") or []
    if before and before != now:
        errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if old.get("providerID") and old["providerID"] != new.get("providerID"):
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    if old.get("externalID") != new.get("externalID"):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors
