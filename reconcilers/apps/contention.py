"""One Helm release belongs to one ApplicationInstance: decides which instance keeps it if several name it.

Helm identifies a release by its name and namespace only. Two HelmReleases of one release name upgrade each other's workload for ever, both
Ready, and the deletion of one uninstalls the other's workload. So at most one instance is applied; the others are Blocked/PolicyDenied
before any write, and are enqueued when the instance that keeps the release is deleted.

The order, best first: an instance that owns a HelmRelease of that release; an instance that was applied before (`status.helmReleaseRef`);
then the older `creationTimestamp`, then the name. An older instance that appears later (a gate opened, a placeholder became managed)
therefore does not take a running release from a younger instance. An instance that is invalid or denied, and owns no HelmRelease, does not
contend.

Guarantees: a function of stored state, so every replica and every restart reaches the same result. An instance without a HelmRelease that
has rivals reads live before its first apply, because the cache may not show a rival's HelmRelease yet. If two instances own a HelmRelease
nevertheless (created by a version without this rule), the HelmRelease of the losing instance is suspended and then deleted: helm-controller
drops a suspended HelmRelease without uninstalling, so the workload stays with the other instance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind, kind, kind_of
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import CheckInput, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from konverge.runtime import Caches, Context

__all__ = [
    "BY_HELM_RELEASE",
    "VIEW",
    "Contender",
    "Standing",
    "affects_rivals",
    "helm_release_of",
    "keeper",
    "keeper_other_than",
    "rivals_of",
]

VIEW: Final[Kind[Object]] = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance")
"""ApplicationInstance as a thin view: a rival may not decode into the model."""

BY_HELM_RELEASE: Final = "helm-release"
"""The index of managed instances by the Helm release that they name."""


class Standing(IntEnum):
    """The rank of an instance's claim on a Helm release, strongest first."""

    OWNS = 0
    APPLIED = 1
    ASKS = 2


@dataclass(frozen=True, slots=True, order=True)
class Contender:
    """An instance that names the Helm release; the least contender keeps it."""

    standing: Standing
    created: str
    name: str
    uid: str


def helm_release_of(instance: Object) -> tuple[str, ...]:
    """Return `namespace/name` of the Helm release that a managed instance names: the values of the index.

    >>> helm_release_of(VIEW.new("shop", "web", spec={"release": {"name": "shop", "namespace": "web"}}))
    ('web/shop',)
    """
    name = instance.get("spec", "release", "name")
    if not isinstance(name, str) or instance.get("spec", "mode") == "placeholder":
        return ()
    return (f"{instance.namespace}/{name}",)


def affects_rivals(change: Change) -> bool:
    """Select changes that can change the keeper: a deletion, another release name, the first apply."""
    old, new = change.old, change.new
    if old is None or new is None:
        return new is None
    if new.metadata.generation == old.metadata.generation:
        return _was_applied(old) != _was_applied(new)
    return helm_release_of(old.decode(VIEW)) != helm_release_of(new.decode(VIEW))


def _was_applied(cached: Cached) -> bool:
    return bool(cached.status().get("helmReleaseRef"))


def rivals_of(instance: Object, caches: Caches) -> Iterable[Key]:
    """Map an instance to the other instances that name its Helm release."""
    return [
        Key("", kind_of(ApplicationInstance), other.namespace, other.name)
        for release in helm_release_of(instance)
        for other in caches(VIEW).metadata_by_index(BY_HELM_RELEASE, release)
        if other.uid != instance.metadata.uid
    ]


def keeper(contenders: Iterable[Contender]) -> Contender:
    """Return the contender that keeps the release.

    >>> old, young = Contender(Standing.ASKS, "2030", "b", "1"), Contender(Standing.OWNS, "2031", "a", "2")
    >>> keeper([old, young]).name
    'a'
    """
    return min(contenders)


def _controls(child: Object | None, instance: Metadata, release: str) -> bool:
    controller = None if child is None else child.metadata.controller
    return (
        child is not None
        and controller is not None
        and controller.uid == instance.uid
        and child.get("spec", "releaseName") == release
    )


def _contender(instance: Object, child: Object | None, release: str) -> Contender:
    metadata = instance.metadata
    if _controls(child, metadata, release):
        standing = Standing.OWNS
    else:
        standing = Standing.APPLIED if instance.get("status", "helmReleaseRef") else Standing.ASKS
    return Contender(standing, metadata.creation_timestamp or "", metadata.name, metadata.uid)


def _can_be_applied(rival: Object, settings: Settings) -> bool:
    """Tell whether a rival could be applied; the label of the namespace is the same for all rivals."""
    everywhere = settings.model_copy(update={"require_namespace_label": False})
    try:
        instance = ApplicationInstance.decode(rival.to_dict())
        return problem_of(CheckInput(instance=instance, settings=everywhere)) is None
    except Exception:  # noqa: BLE001  # a rival that cannot be checked is never applied, and must not block the others
        return False


async def keeper_other_than(
    instance: Metadata, release: str, settings: Settings, ctx: Context[ApplicationInstance]
) -> str:
    """Return the name of the other instance that keeps this Helm release; "" if this instance keeps it."""
    instances, releases = ctx.cache(VIEW), ctx.cache(HELM_RELEASE)
    index = f"{instance.namespace}/{release}"
    if all(other.uid == instance.uid for other in instances.metadata_by_index(BY_HELM_RELEASE, index)):
        return ""
    views = [view for view in instances.by_index(BY_HELM_RELEASE, index) if view.metadata.uid != instance.uid]
    not_applicable = {view.metadata.uid for view in views if not _can_be_applied(view, settings)}
    myself = instances.find(instance.namespace, instance.name)
    if myself is not None and myself.metadata.uid == instance.uid:
        views.append(myself)

    def rank(find: Callable[[str, str], Object | None]) -> tuple[Contender, list[Contender]]:
        contenders = [_contender(view, find(instance.namespace, view.name), release) for view in views]
        left = [
            contender
            for contender in contenders
            if contender.standing is Standing.OWNS or contender.uid not in not_applicable
        ]
        return keeper(left), [contender for contender in left if contender.standing is Standing.OWNS]

    first, owners = rank(releases.find)
    mine = any(owner.uid == instance.uid for owner in owners)
    if (first.uid == instance.uid) == mine and len(owners) <= 1:
        return "" if mine else first.name
    stored = {child.name: child for child in await ctx.live(HELM_RELEASE).list(instance.namespace)}
    first, _ = rank(lambda _, name: stored.get(name))
    return "" if first.uid == instance.uid else first.name
