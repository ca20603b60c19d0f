"""Pod.

Source: `pkg/registry/core/pod/strategy.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.clock import wall_clock
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.base import BuiltInStrategy, restore
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, immutable
from konverge_testing.apiserver.strategies.pods.changes import change_errors
from konverge_testing.apiserver.strategies.pods.checks import spec_errors
from konverge_testing.apiserver.strategies.pods.containers import image_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_pod, drop_gated, quality
from konverge_testing.apiserver.strategies.pods.warnings import pod_warnings
from konverge_testing.apiserver.strategies.rules import at, each, text, when

__all__ = ["Pod"]

_SYSTEM: Final = ("PodScheduled", "Ready", "Initialized")
_MISTAKEN: Final = (
    "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)


class Pod(BuiltInStrategy):
    """Pod: pending when it is new; few fields of its spec can change later."""

    generation = True
    has_status = True
    grace_period = 30
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    }
    selectable: Mapping[str, Any] = {
        **{f"spec.{name}": "" for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")},
        "spec.hostNetwork": False,
        **{f"status.{name}": "" for name in ("phase", "podIP", "nominatedNodeName")},
    }

    def _default(self, new: Data) -> None:
        default_pod(new)

    def _create(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        drop_gated(spec)
        new["status"] = {"phase": "Pending", "qosClass": quality(spec)}
        if spec.get("schedulingGates"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}
            now = wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ")
            new["status"]["conditions"] = [{"lastProbeTime": None, "lastTransitionTime": now, **gated}]

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore(new["metadata"], old["metadata"], "ownerReferences", "deletionTimestamp")
        before, status = (old.get("status") or {}).get("qosClass"), new.setdefault("status", {})
        if before and not status.get("qosClass"):
            status["qosClass"] = before

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = spec_errors(spec, "spec", pod=new["metadata"].get("name", "")) + _token_errors(spec)
        errors += _IMAGES(spec, "spec")
        if old is not None:
            return errors + change_errors(spec, old.get("spec") or {})
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def _status_errors(self, new: Data, old: Data) -> Errors:
        now, before = ((each_.get("status") or {}).get("qosClass", "") for each_ in (new, old))
        return _CONDITIONS(new, "") + immutable("status.qosClass", now, before)

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None:
            return []
        problems = names.dns1123_label(new["metadata"].get("name", ""))
        mistaken = [f"metadata.name: {_MISTAKEN}: [{' '.join(problems)}]"] if problems else []
        return mistaken + pod_warnings(new.get("spec") or {})


_IMAGES: Final = at("containers initContainers", each(image_errors))
_CONDITIONS: Final = at(
    "status",
    at(
        "conditions",
        each(
            when(
                lambda condition: condition.get("type", "") not in _SYSTEM,
                lambda condition, path: text(names.label_key)(condition.get("type"), f"{path}.Type"),
            )
        ),
    ),
)


def _token_errors(spec: Data) -> Errors:
    """Check that only a pod with a service account projects its token."""
    words = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", words)
        for index, volume in enumerate([] if spec.get("serviceAccountName") else spec.get("volumes") or [])
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if "serviceAccountToken" in source
    ]
