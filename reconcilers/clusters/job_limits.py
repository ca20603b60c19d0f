"""The limits of the jobs of a control plane: namespaces, and the fields that only people of this cluster write. Pure.

Labels and annotations of the operator's domains permit or limit its work: `override-forbidden` permits a version that an administrator
forbids, `adopt` takes over a release, `maintenance-window` replaces the window of the namespace, `shard.konverge.dev` names a replica.
An approval of an Operation has to be from another party than its author.

Guarantees: a word that a later version adds to these domains is refused until it is listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge.crds.ops_v1alpha1 import CANCEL
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = ["Gates", "written_approvals", "written_words"]

_DOMAINS: Final = ("vworkspace.io", "konverge.dev")
_LABELS: Final = frozenset({ControlPlaneLabel.MANAGED_BY, ControlPlaneLabel.CLUSTER_ID})
"""Labels that each object of a job has; a job cannot choose their values."""
_ANNOTATIONS: Final = frozenset({CANCEL})
"""A job may end its own Operation, as `spec.cancel` does."""
_KUBERNETES: Final = "kube-*"
_WITHOUT_EFFECT: Final = frozenset({"required"})
"""Fields of `spec.approvals` that do not approve: the job may require an approval, and a setting requires it whatever a job writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The limits of the jobs of one cluster.

    >>> gates = Gates(cluster_id="east", denied=("konverge-system", "velero*"))
    >>> [gates.allows(name) for name in ("web", "kube-flannel", "velero-backups", "konverge-system")]
    [True, False, False, False]
    """

    cluster_id: str
    namespaces: tuple[str, ...] = ()
    """The namespaces that jobs may write in; empty: all but the denied namespaces."""
    denied: tuple[str, ...] = ()
    """Names of namespaces, or prefixes followed by `*`; `kube-*` is always among them."""
    most_bytes: int = 256 * 1024
    """Bytes of a job at most."""

    def allows(self, namespace: str) -> bool:
        """Tell whether jobs may write in a namespace."""
        denied = any(_matches(pattern, namespace) for pattern in (_KUBERNETES, *self.denied))
        return not denied and (not self.namespaces or namespace in self.namespaces)


def _matches(pattern: str, namespace: str) -> bool:
    return namespace.startswith(pattern[:-1]) if pattern.endswith("*") else namespace == pattern


def written_words(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Return the labels and annotations of the operator's domains that a job may not write.

    >>> list(written_words({"app": "shop"}, {"apps.vworkspace.io/override-forbidden": "true"}))
    ['annotation apps.vworkspace.io/override-forbidden']
    """
    yield from (f"label {key}" for key in labels if _is_ours(key) and key not in _LABELS)
    yield from (f"annotation {key}" for key in annotations if _is_ours(key) and key not in _ANNOTATIONS)


def _is_ours(key: str) -> bool:
    domain = f".{key.partition('/')[0].strip().lower()}"
    return any(domain.endswith(f".{ours}") for ours in _DOMAINS)


def written_approvals(spec: Mapping[str, Any]) -> Iterator[str]:
    """Return the fields of an approval in the spec of an Operation.

    >>> list(written_approvals({"approvals": {"required": True, "claim": "{}"}}))
    ['spec.approvals.claim']
    """
    approvals = spec.get("approvals")
    if isinstance(approvals, Mapping):
        yield from (f"spec.approvals.{field}" for field in approvals if field not in _WITHOUT_EFFECT)
