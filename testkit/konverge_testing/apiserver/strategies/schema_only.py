"""Kinds that are checked by their schema only: nothing but the server's own tests needs the rules of kube-apiserver for them.

Guarantees: they are stored, with their defaults, their status and their subresources as in a cluster; no object is rejected for its values.
testkit/docs/conformance.md names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from konverge_testing.apiserver.statuses import not_implemented
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.defaulting import Defaults, Tree
from konverge_testing.apiserver.strategies.errors import Data
from konverge_testing.apiserver.strategies.pods.defaults import default_template

__all__ = ["SCHEMA_ONLY", "SchemaOnly"]

_STORAGE: Final = "storage.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_UTILIZATION: Final = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


class SchemaOnly(BuiltInStrategy):
    """A kind with defaults and without checks; `traits` are attributes of the class."""

    counts_labels = False
    """Whether metadata.generation counts changes of labels."""

    def __init__(self, defaults: Defaults | Callable[[Data], None] = (), **traits: Any) -> None:
        self._fill = defaults if callable(defaults) else Tree(defaults).fill
        vars(self).update(traits)
        if self.has_status:
            self.reset_fields = {"": (("status",),), "status": (("spec",),)}

    def _default(self, new: Data) -> None:
        self._fill(new)

    def _intent_changed(self, new: Data, old: Data) -> bool:
        relabelled = (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
        before, now = ({**each, "metadata": None, "status": None} for each in (old, new))
        return now != before or (self.counts_labels and relabelled)

    def convert(self, data: Data, api_version: str) -> Data:
        """Return an object in its version; no kind here has conversions."""
        if data["apiVersion"] != api_version:
            raise not_implemented(f"{data['kind']} of {data['apiVersion']} in {api_version}")
        return data


def _default_controller(new: Data) -> None:
    """Fill in the defaults of a ReplicationController, which has the labels of its template and selects them."""
    spec = new.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if spec.get("template") is not None:
        default_template(spec["template"])
        if labels := spec["template"]["metadata"].get("labels"):
            spec["selector"] = spec.get("selector") or dict(labels)
            new["metadata"]["labels"] = new["metadata"].get("labels") or dict(labels)


SCHEMA_ONLY: Final[Mapping[tuple[str, str], SchemaOnly]] = {
    ("", "podtemplates"): SchemaOnly(lambda new: default_template(new.setdefault("template", {})), generation=True),
    ("", "replicationcontrollers"): SchemaOnly(
        _default_controller, generation=True, has_status=True, empty_status={"replicas": 0}
    ),
    ("apps", "controllerrevisions"): SchemaOnly(),
    ("autoscaling", "horizontalpodautoscalers"): SchemaOnly(
        [("spec.minReplicas", 1), ("spec.metrics+", [{"type": "Resource", "resource": _UTILIZATION}])],
        has_status=True,
        empty_status={"desiredReplicas": 0, "currentMetrics": None},
    ),
    ("discovery.k8s.io", "endpointslices"): SchemaOnly(
        [("ports[].name", ""), ("ports[].protocol", "TCP")], generation=True, counts_labels=True
    ),
    (_NETWORKING, "ingressclasses"): SchemaOnly([("spec?.parameters?.scope", "Cluster")], generation=True),
    (_NETWORKING, "ipaddresses"): SchemaOnly(name_rule="ip"),
    (_NETWORKING, "servicecidrs"): SchemaOnly(has_status=True),
    ("node.k8s.io", "runtimeclasses"): SchemaOnly(allow_create_on_update=True, unconditional_update=False),
    (_STORAGE, "csidrivers"): SchemaOnly(
        [
            ("spec.attachRequired", True),
            ("spec.podInfoOnMount", False),
            ("spec.storageCapacity", False),
            ("spec.fsGroupPolicy", "ReadWriteOnceWithFSType"),
            ("spec.requiresRepublish", False),
            ("spec.seLinuxMount", False),
            ("spec.volumeLifecycleModes+", ["Persistent"]),
        ],
        unconditional_update=False,
    ),
    (_STORAGE, "csinodes"): SchemaOnly(unconditional_update=False),
    (_STORAGE, "csistoragecapacities"): SchemaOnly(unconditional_update=False),
    (_STORAGE, "storageclasses"): SchemaOnly([("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")]),
    (_STORAGE, "volumeattachments"): SchemaOnly(
        [("status.attached", False)], has_status=True, empty_status={"attached": False}, unconditional_update=False
    ),
    (_STORAGE, "volumeattributesclasses"): SchemaOnly(),
}
