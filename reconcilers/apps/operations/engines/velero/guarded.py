"""The resources that a Restore leaves out, because Velero writes them with its own cluster-wide rights.

A backup holds a former state of a namespace. A right that was withdrawn since, or a limit that was lowered, would return with a
Restore, and a person who may not write a RoleBinding could write one in this way. So a Restore leaves out every kind that grants rights,
that limits a tenant, or that another controller carries out with rights of its own.

`excludedResources` is the enforcement: Velero resolves each entry to a resource by discovery, and leaves an excluded resource out however
`includedResources` spells it. The refusal of such an entry only explains that. Of cluster-wide resources a Restore of one namespace only
takes the resources that its objects need: the PersistentVolume of a claim, the content of a VolumeSnapshot.

Guarantees: pure. Source: velero-io/velero pkg/restore/restore.go, pkg/util/collections/includes_excludes.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

__all__ = ["NEVER_RESTORED", "NOT_RESTORED", "RIGHTS", "excluded_resources", "refused_entries"]

RIGHTS: Final = {
    "roles": ("roles.rbac.authorization.k8s.io", "roles.authorization.openshift.io"),
    "rolebindings": ("rolebindings.rbac.authorization.k8s.io", "rolebindings.authorization.openshift.io"),
    "resourcequotas": ("resourcequotas",),
    "limitranges": ("limitranges",),
    "helmreleases": ("helmreleases.helm.toolkit.fluxcd.io",),
    "kustomizations": ("kustomizations.kustomize.toolkit.fluxcd.io",),
}
"""Left out unless the settings allow them (`restorable_rights`), and for Flux objects `includedResources` names them too."""

NEVER_RESTORED: Final = (
    "applicationinstances.apps.vworkspace.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "namespaces",
    "operations.ops.vworkspace.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
"""A restored instance would have another UID and no status, an Operation would run again, and the labels of a namespace set its Pod
Security Standard. The rest are rights of the whole cluster."""

NOT_RESTORED: Final = (
    "helmcharts.source.toolkit.fluxcd.io",
    "helmreleases.helm.toolkit.fluxcd.io",
    "helmrepositories.source.toolkit.fluxcd.io",
    "jobs.batch",
    "kustomizations.kustomize.toolkit.fluxcd.io",
    "ocirepositories.source.toolkit.fluxcd.io",
)
"""Left out unless `includedResources` names them: Flux objects of the instance would return without their owner, and Jobs would run
again."""

_OTHER_NAMES: Final = {
    "applicationinstances": ("appinst",),
    "customresourcedefinitions": ("crd", "crds"),
    "helmreleases": ("hr",),
    "kustomizations": ("ks",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "operations": ("op",),
    "resourcequotas": ("quota",),
}
"""The short names of resources. Velero takes them, and singulars and kinds, as kubectl does."""


def _means(entry: str, resource: str) -> bool:
    """Tell whether an entry denotes a resource: in any case, as plural, singular, kind or short name, with or without its group."""
    name, _, group = entry.strip().lower().partition(".")
    plural, _, own_group = resource.partition(".")
    singular = f"{plural[:-3]}y" if plural.endswith("ies") else plural.removesuffix("s")
    return name in (plural, singular, *_OTHER_NAMES.get(plural, ())) and own_group.startswith(group)


def refused_entries(included: Iterable[str], allowed: Collection[str]) -> list[str]:
    """Return the entries of `includedResources` that denote a resource which a Restore always leaves out.

    >>> refused_entries(["RoleBinding", "roles.rbac", "deployments", "roles.example.com"], frozenset())
    ['RoleBinding', 'roles.rbac']
    """
    guarded = (*NEVER_RESTORED, *_guarded(allowed))
    return sorted({entry for entry in included if any(_means(entry, resource) for resource in guarded)})


def _guarded(allowed: Collection[str]) -> list[str]:
    return [resource for right, resources in RIGHTS.items() if right not in allowed for resource in resources]


def excluded_resources(included: Iterable[str], excluded: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Return `excludedResources` of a Restore.

    >>> "rolebindings.rbac.authorization.k8s.io" in excluded_resources(["*"], (), frozenset())
    True
    """
    named = tuple(included)
    unnamed = (resource for resource in NOT_RESTORED if not any(_means(entry, resource) for entry in named))
    return tuple(sorted({*excluded, *NEVER_RESTORED, *_guarded(allowed), *unnamed}))
