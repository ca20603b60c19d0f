"""Pod.

Source: `pkg/registry/core/pod/strategy.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge.clock import wall_clock
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    immutable,
    restore,
    text_errors,
)
from konverge_testing.apiserver.strategies.pods.changes import change_errors
from konverge_testing.apiserver.strategies.pods.checks import spec_errors
from konverge_testing.apiserver.strategies.pods.containers import image_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_pod, drop_gated, quality
from konverge_testing.apiserver.strategies.pods.warnings import pod_warnings

__all__ = ["Pod"]

_SYSTEM: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_MISTAKEN: Final = (
    "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)


class Pod(BuiltInStrategy):
    """A pod: pending when it is new; of its spec, hardly anything changes later."""

    generation = True
    has_status = True
    grace_period = 30
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    }

    def _default(self, new: Data) -> None:
        default_pod(new)

    def _create(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        drop_gated(spec)
        new["status"] = {"phase": "Pending", "qosClass": quality(spec)}
        if spec.get("schedulingGates"):
            text = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
            now = wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")
            new["status"]["conditions"] = [{"lastProbeTime": None, "lastTransitionTime": now, **gated}]

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore(new["metadata"], old["metadata"], "ownerReferences", "deletionTimestamp")
        quality_ = (old.get("status") or {}).get("qosClass")
        status = new.setdefault("status", {})
        if quality_ and not status.get("qosClass"):
            status["qosClass"] = quality_

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = spec_errors(spec, "spec", pod=new["metadata"].get("name", "")) + _token_errors(spec)
        for kind in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(kind) or ()):
                errors += image_errors(container, f"spec.{kind}[{index}]")
        if old is not None:
            return errors + change_errors(spec, old.get("spec") or {})
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def _status_errors(self, new: Data, old: Data) -> Errors:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors: Errors = []
        for index, condition in enumerate(status.get("conditions") or ()):
            if condition.get("type", "") not in _SYSTEM:
                errors += text_errors(f"status.conditions[{index}].Type", condition.get("type", ""), names.label_key)
        return errors + immutable("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None:
            return []
        found = names.dns1123_label(new["metadata"].get("name", ""))
        mistaken = [f"metadata.name: {_MISTAKEN}: [{' '.join(found)}]"] if found else []
        return mistaken + pod_warnings(new.get("spec") or {})

    def _labels(self, object_: Data) -> dict[str, str]:
        spec, status = object_.get("spec") or {}, object_.get("status") or {}
        named = {
            f"spec.{name}": spec.get(name, "")
            for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
        }
        told = {f"status.{name}": status.get(name, "") for name in ("phase", "podIP", "nominatedNodeName")}
        return {**named, "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false", **told}


def _token_errors(spec: Data) -> Errors:
    """Check that only a pod with a service account asks for its token."""
    text = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", text)
        for index, volume in enumerate([] if spec.get("serviceAccountName") else spec.get("volumes") or [])
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if "serviceAccountToken" in source
    ]
