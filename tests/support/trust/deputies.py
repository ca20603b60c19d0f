"""Bounds of the objects that the daemon creates for a tenant: the rights that they act with, and their namespace.

Guarantees: pure. The objects hand a tenant's fields to programs with larger rights than the tenant's: Flux, Velero, the Job controller,
Argo and VolSync.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from trust.snapshots import Key

RUNNER: Final = "vworkspace-operation-runner"
_ROLES: Final = ("roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io")
_MANAGER: Final = "konverge"

Spec = Mapping[str, Any]


def broken_bounds(present: Mapping[Key, Mapping[str, Any]], namespace: str, instances: Collection[str]) -> list[str]:
    """Return a sentence for each object of the daemon that acts beyond the rights of the tenant of this namespace."""
    found = []
    for key, data in present.items():
        bound = _BOUNDS.get(key[0])
        if bound is None or not _is_of_tenant(key, data, namespace, instances) or not _is_ours(data):
            continue
        found += [f"{' '.join(key)}: {words}" for words in bound(data.get("spec") or {}, namespace)]
    return found


def _is_of_tenant(key: Key, data: Mapping[str, Any], namespace: str, instances: Collection[str]) -> bool:
    if key[0].endswith(".velero.io"):
        own = (data["metadata"].get("annotations") or {}).get("ops.vworkspace.io/operation-name", "")
        return str(own).startswith(f"{namespace}/")
    return key[1] == namespace or key[2] in instances


def _is_ours(data: Mapping[str, Any]) -> bool:
    """Whether the daemon wrote the specification: in a namespace of its own a tenant may write such an object itself."""
    return any(
        "f:spec" in (one.get("fieldsV1") or {})
        for one in data["metadata"].get("managedFields", ())
        if str(one.get("manager", "")).startswith(_MANAGER)
    )


def _release(spec: Spec, namespace: str) -> Iterator[str]:
    if not spec.get("serviceAccountName"):
        yield "Flux installs the chart with its own rights"
    if "kubeConfig" in spec:
        yield "the chart is installed in another cluster"
    for field in ("targetNamespace", "storageNamespace"):
        if spec.get(field) not in (None, "", namespace, "nextcloud-instances"):
            yield f"{field} is {spec[field]}"
    source = ((spec.get("chart") or {}).get("spec") or {}).get("sourceRef") or spec.get("chartRef") or {}
    if source.get("namespace") not in (None, "", namespace, "nextcloud-instances"):
        yield f"its source is in {source['namespace']}"


def _job(spec: Spec, _namespace: str) -> Iterator[str]:
    account = ((spec.get("template") or {}).get("spec") or {}).get("serviceAccountName")
    if account != RUNNER:
        yield f"its pods run as {account}"


def _workflow(spec: Spec, _namespace: str) -> Iterator[str]:
    if spec.get("serviceAccountName") != RUNNER:
        yield f"its pods run as {spec.get('serviceAccountName')}"


def _backup(spec: Spec, namespace: str) -> Iterator[str]:
    if spec.get("includedNamespaces") != [namespace]:
        yield f"it includes the namespaces {spec.get('includedNamespaces')}"
    if spec.get("includeClusterResources") is True:
        yield "it includes cluster-scoped objects"


def _restore(spec: Spec, namespace: str) -> Iterator[str]:
    yield from _backup(spec, namespace)
    if any(value != namespace for value in (spec.get("namespaceMapping") or {}).values()):
        yield f"it maps namespaces: {spec['namespaceMapping']}"
    missing = [name for name in _ROLES if name not in (spec.get("excludedResources") or ())]
    if missing:
        yield f"it restores {', '.join(missing)} with Velero's rights"


_BOUNDS: Final[Mapping[str, Callable[[Spec, str], Iterator[str]]]] = {
    "helmreleases.helm.toolkit.fluxcd.io": _release,
    "jobs.batch": _job,
    "workflows.argoproj.io": _workflow,
    "backups.velero.io": _backup,
    "restores.velero.io": _restore,
}
