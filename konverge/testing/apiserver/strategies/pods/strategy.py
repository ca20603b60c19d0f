"""Pod and PodTemplate.

The text of a refused change of a pod's spec ends with a difference; here it is one of the v1 form, upstream of Go's internal structs.
Source: `pkg/registry/core/pod/strategy.go`, `pkg/registry/core/podtemplate/strategy.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from konverge.clock import wall_clock
from konverge.testing.apiserver import names
from konverge.testing.apiserver.strategies import texts
from konverge.testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    immutable,
    invalid,
    required,
    restore,
    text_errors,
)
from konverge.testing.apiserver.strategies.pods.checks import spec_errors, template_errors, toleration_errors
from konverge.testing.apiserver.strategies.pods.defaults import default_pod, default_template, quality
from konverge.testing.apiserver.strategies.pods.warnings import pod_warnings

__all__ = ["Pod", "PodTemplate", "difference"]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SYSTEM: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_MAX: Final = 2**31 - 1
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
        errors = spec_errors(spec, "spec", is_pod=True) + _token_errors(spec)
        if old is not None:
            return errors + _change_errors(spec, old.get("spec") or {})
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


def _change_errors(new: Data, old: Data) -> Errors:
    """Check what an update does to a pod's spec."""
    errors: Errors = []
    for field in ("containers", "initContainers"):
        now, before = new.get(field) or [], old.get(field) or []
        if len(now) != len(before):
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        errors += _image_errors(now, f"spec.{field}")
    wrong, stop = _deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    errors += wrong
    if stop:
        return errors
    errors += _added_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    left = [each.get("name", "") for each in old.get("schedulingGates") or ()]
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name", "") not in left:
            errors.append(
                forbidden(
                    f"spec.schedulingGates[{index}]",
                    f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
                )
            )
    munged = _munged(new, old)
    if munged != old:
        text = f"pod updates may not change fields other than {_CHANGEABLE}\n{difference(old, munged)}"
        errors.append(forbidden("spec", text))
    return errors


def _image_errors(containers: list[Data], path: str) -> Errors:
    errors: Errors = []
    for index, container in enumerate(containers):
        image = container.get("image", "")
        if not image:
            errors.append(required(f"{path}[{index}].image"))
        if image.strip() != image:
            errors.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))
    return errors


def _deadline_errors(new: int | None, old: int | None) -> tuple[Errors, bool]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        text = "must not update from a positive integer to nil value"
        return ([invalid(path, None, text)], False) if old is not None else ([], False)
    if found := texts.between(new, 0, _MAX):
        return [invalid(path, new, found[0])], True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _added_tolerations(new: list[Data], old: list[Data]) -> Errors:
    for each in old:
        if not any({**each, "tolerationSeconds": 0} == {**other, "tolerationSeconds": 0} for other in new):
            return [
                forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            ]
    return toleration_errors(new, "spec.tolerations")


def _munged(new: Data, old: Data) -> Data:
    """Return the new spec with everything that may change put back."""
    munged = copy.deepcopy(new)
    for field in ("containers", "initContainers"):
        for now, before in zip(munged.get(field) or (), old.get(field) or (), strict=True):
            restore(now, before, "image")
    restore(munged, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        restore(munged, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        restore(munged, old, "nodeSelector", "affinity")
    return munged


def difference(old: Any, new: Any) -> str:
    """Return a unified difference of two values as JSON."""
    one, other = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (old, new))
    return "\n".join([*difflib.unified_diff(one, other, lineterm="", n=3)][2:]) + "\n"


class PodTemplate(BuiltInStrategy):
    """A pod template by itself."""

    generation = True

    def _intent_changed(self, new: Data, old: Data) -> bool:
        return bool(new.get("template") != old.get("template"))

    def _default(self, new: Data) -> None:
        default_template(new.setdefault("template", {}))

    def _errors(self, new: Data, _old: Data | None) -> Errors:
        return template_errors(new.get("template") or {}, "template")

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None and not self._intent_changed(new, old):
            return []
        return pod_warnings((new.get("template") or {}).get("spec") or {}, "template")
