"""Classes: the default StorageClass of a claim, the default IngressClass of an ingress, and the RuntimeClass of a pod.

Guarantees: pure apart from reading the classes; the object of a call is changed in place. Of several default classes the newest counts. The
rules are those of Kubernetes' `plugin/pkg/admission/{storage/storageclass/setdefault,network/defaultingressclass,runtimeclass}`.
"""

from __future__ import annotations

from typing import Final

from konverge.quantities import read
from konverge_testing.apiserver.admission.call import AdmissionCall, Data, denied
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.objects import Objects

__all__ = ["check_overhead", "fill_ingress_class", "fill_runtime", "fill_storage_class"]

_INGRESS_CLASSES: Final = ("networking.k8s.io", "ingressclasses")
_RUNTIME_CLASSES: Final = ("node.k8s.io", "runtimeclasses")
_STORAGE_CLASSES: Final = ("storage.k8s.io", "storageclasses")
_DEFAULT_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)
_DEFAULT_STORAGE: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MISMATCH: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def _annotations(found: Data) -> dict[str, str]:
    return (found.get("metadata") or {}).get("annotations") or {}


def fill_storage_class(claim: Data, objects: Objects) -> None:
    """Give a claim that names no class the default StorageClass."""
    spec = claim.setdefault("spec", {})
    if spec.get("storageClassName") is None and "volume.beta.kubernetes.io/storage-class" not in _annotations(claim):
        name = _default(objects, _STORAGE_CLASSES, _DEFAULT_STORAGE)
        if name:
            spec["storageClassName"] = name


def fill_ingress_class(ingress: Data, objects: Objects) -> None:
    """Give an ingress that names no class the default IngressClass."""
    spec = ingress.setdefault("spec", {})
    if spec.get("ingressClassName") is None and "kubernetes.io/ingress.class" not in _annotations(ingress):
        name = _default(objects, _INGRESS_CLASSES, _DEFAULT_INGRESS)
        if name:
            spec["ingressClassName"] = name


def _default(objects: Objects, kind: tuple[str, str], marks: tuple[str, ...]) -> str:
    if not objects.changed(kind):
        return ""
    classes = [
        found["metadata"]
        for found in objects.list(kind)
        if any(_annotations(found).get(mark) == "true" for mark in marks)
    ]
    newest = max((str(one["creationTimestamp"]) for one in classes), default="")
    return min((str(one["name"]) for one in classes if one["creationTimestamp"] == newest), default="")


# -- RuntimeClass -----------------------------------------------------------------------------------------------------


def _runtime(call: AdmissionCall, pod: Data, objects: Objects) -> Data | None:
    name = (pod.get("spec") or {}).get("runtimeClassName")
    if name is None:
        return None
    found = objects.get(_RUNTIME_CLASSES, "", name)
    if found is None:
        raise denied(call, f"pod rejected: RuntimeClass {quoted(name)} not found")
    return found


def fill_runtime(call: AdmissionCall, pod: Data, objects: Objects) -> None:
    """Put the overhead, node selector and tolerations of a pod's RuntimeClass into the pod; raises if the pod contradicts them."""
    runtime = _runtime(call, pod, objects)
    if runtime is None:
        return
    spec = pod["spec"]
    if (overhead := runtime.get("overhead")) is not None:
        fixed = overhead.get("podFixed") or {}
        if spec.get("overhead") and read(spec["overhead"]) != read(fixed):
            raise denied(call, _MISMATCH)
        if fixed:
            spec["overhead"] = dict(fixed)
    if (scheduling := runtime.get("scheduling")) is not None:
        _schedule(call, spec, scheduling)


def _schedule(call: AdmissionCall, spec: Data, scheduling: Data) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        if selector.setdefault(key, value) != value:
            ours = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise denied(call, f"conflict: {ours}; pod.spec.nodeSelector[{key}] = {selector[key]}")
    if selector:
        spec["nodeSelector"] = selector
    merged = _merged([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
    if merged:
        spec["tolerations"] = merged


def _merged(tolerations: list[Data]) -> list[Data]:
    """Return the tolerations, without those that another toleration includes."""
    merged: list[Data] = []
    for index, one in enumerate(tolerations):
        later = [other for other in tolerations[index + 1 :] if other != one]
        if not any(_includes(other, one) for other in [*merged, *later]):
            merged.append(one)
    return merged


def _includes(wide: Data, narrow: Data) -> bool:
    """Tell whether the first toleration tolerates everything that the second tolerates (`pkg/util/tolerations`)."""
    if wide == narrow:
        return True
    operator, seconds = wide.get("operator") or "Equal", wide.get("tolerationSeconds")
    if wide.get("key", "") != narrow.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect", ""):
        return False
    if wide.get("effect") == "NoExecute" and seconds is not None:
        shorter = narrow.get("tolerationSeconds")
        if shorter is None or shorter > seconds:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return bool(operator == "Exists")


def check_overhead(call: AdmissionCall, objects: Objects) -> None:
    """Refuse a new pod whose overhead differs from its RuntimeClass's overhead."""
    if call.id != ("", "pods") or call.subresource or call.operation != "CREATE" or call.object is None:
        return
    overhead = (call.object.get("spec") or {}).get("overhead")
    runtime = _runtime(call, call.object, objects)
    if runtime is None or runtime.get("overhead") is None:
        if overhead is not None:
            raise denied(call, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    elif read(overhead) != read(runtime["overhead"].get("podFixed")):
        raise denied(call, _MISMATCH)
