"""The inputs of one reconcile: cache reads, gathered into a frozen `ObservedInstance`, and the remaining children of an uninstall.

Guarantees: takes no decision and returns no content of a Secret or ConfigMap. The only live read of `reconcile` checks that the key of the
values exists, and happens only during a rollout: at rest a reconcile only reads caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Forbidden, NotServed
from konverge.kinds import Kind
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.contention import keeper_other_than
from konverge.reconcilers.apps.kinds import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
    SECRET,
)
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.shared.helm_release.values import ValuesFrom, token_of

if TYPE_CHECKING:
    from konverge.runtime import Applied, Context, Held

__all__ = [
    "AppliedChildren",
    "ObservedInstance",
    "RemainingChildren",
    "applied_children",
    "check_key",
    "controls",
    "needed_kinds",
    "observe",
    "observe_remaining",
    "values_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInstance:
    """The input of all decisions of a reconcile.

    `unserved` names the kinds that the instance needs and the cluster lacks. `release`, `source` and `chart` are the cached objects of the
    names that the instance uses, whatever their owner; `unused_sources` are sources of the instance that its spec no longer names.
    """

    instance: ApplicationInstance
    unserved: tuple[str, ...] = ()
    release: Object | None = None
    source: Object | None = None
    chart: Object | None = None
    unused_sources: tuple[Object, ...] = ()
    values: ValuesFrom | None = None
    namespace_labels: Mapping[str, str] | None = None
    release_unknown: bool = False
    """The cluster does not serve HelmReleases at present, so their existence is unknown."""

    @property
    def own_release(self) -> Object | None:
        """The release if the instance controls it."""
        return self.release if controls(self.instance.metadata, self.release) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingChildren:
    """The children of an instance under deletion that still exist, read live."""

    owner: Metadata
    release: Object | None = None
    sources: tuple[Object, ...] = ()
    keeper: str = ""
    """The other instance that keeps the Helm release of this instance's HelmRelease; "" without one."""

    def owned(self, child: Object | None) -> Object | None:
        """Return the child if the instance controls it."""
        return child if controls(self.owner, child) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChildren:
    """The children as stored after the applies; `created` is True if this reconcile created the release."""

    release: Object | None
    source: Object | None
    chart: Object | None
    held: tuple[Held, ...] = ()
    created: bool = False


def controls(owner: Metadata, child: Object | None) -> bool:
    """Tell whether the child's controller reference has the uid of this owner; a name can be reused."""
    reference = None if child is None else child.metadata.controller
    return reference is not None and reference.uid == owner.uid


def needed_kinds(instance: ApplicationInstance) -> tuple[Kind[Object], ...]:
    """Return the kinds of Flux that the instance needs."""
    chart = instance.spec.chart
    if instance.spec.mode != "managed" or chart is None:
        return ()
    return (HELM_RELEASE, OCI_REPOSITORY) if chart.source_type == "oci" else (HELM_RELEASE, HELM_REPOSITORY, HELM_CHART)


def values_of(instance: ApplicationInstance) -> tuple[Kind[Object], str, str] | None:
    """Return kind, name and key of the object that holds the values; None for inline values."""
    values = instance.spec.values
    if values is None or values.source == "inline":
        return None
    kind, reference = (
        (SECRET, values.secret_ref) if values.source == "secretRef" else (CONFIG_MAP, values.config_map_ref)
    )
    return None if reference is None else (kind, reference.name, reference.key)


def _values(instance: ApplicationInstance, ctx: Context[ApplicationInstance], settings: Settings) -> ValuesFrom | None:
    """Return the state of the object that holds the values; None for inline values, and for Secrets that only Flux may read."""
    where = values_of(instance)
    if where is None or (where[0] == SECRET and not settings.watches_secrets_in(instance.namespace)):
        return None
    kind, name, key = where
    token = token_of(ctx.cache(kind).metadata(instance.namespace, name))
    return ValuesFrom(kind=kind.kind, namespace=instance.namespace, name=name, key=key, token=token)


def observe(instance: ApplicationInstance, ctx: Context[ApplicationInstance], settings: Settings) -> ObservedInstance:
    """Return the cached state of the instance and its children."""
    namespace, name = instance.namespace, instance.name

    def find(kind: Kind[Object], called: str = name) -> Object | None:
        return ctx.cache(kind).find(namespace, called) if ctx.serves(kind) else None

    chart = instance.spec.chart
    sources = {kind: find(kind) for kind in (HELM_REPOSITORY, OCI_REPOSITORY)}
    in_use = None if chart is None else OCI_REPOSITORY if chart.source_type == "oci" else HELM_REPOSITORY
    labels = ctx.cache(NAMESPACE).metadata("", namespace) if settings.require_namespace_label else None
    return ObservedInstance(
        instance=instance,
        unserved=tuple(kind.group_kind for kind in needed_kinds(instance) if not ctx.serves(kind)),
        release=find(HELM_RELEASE),
        source=None if in_use is None else sources[in_use],
        chart=find(HELM_CHART, f"{namespace}-{name}") if in_use == HELM_REPOSITORY else None,
        unused_sources=tuple(
            source
            for kind, source in sources.items()
            if kind != in_use and source is not None and controls(instance.metadata, source)
        ),
        values=_values(instance, ctx, settings),
        namespace_labels=None if labels is None else labels.labels or {},
        release_unknown=not ctx.serves(HELM_RELEASE),
    )


async def check_key(values: ValuesFrom, ctx: Context[ApplicationInstance]) -> ValuesFrom:
    """Return the values with `has_key`, read live; without the right to read, the key counts as unknown, and Flux reports a missing key."""
    kind = SECRET if values.kind == SECRET.kind else CONFIG_MAP
    try:
        stored = await ctx.live(kind).find(values.namespace, values.name)
    except Forbidden:
        return values
    if stored is None:
        return replace(values, token="")  # the object was deleted
    has_key = any(values.key in (stored.get(part, default={}) or {}) for part in ("data", "binaryData"))
    return replace(values, has_key=has_key)


def applied_children(observed: ObservedInstance, applied: Applied, *, oci: bool) -> AppliedChildren:
    """Return the children as stored after the apply; a child whose apply was held, as the cache has it."""
    source = OCI_REPOSITORY if oci else HELM_REPOSITORY
    return AppliedChildren(
        release=applied.find(HELM_RELEASE) or observed.release,
        source=applied.find(source) or observed.source,
        chart=observed.chart,
        held=applied.held,
        created=observed.release is None,
    )


async def observe_remaining(
    instance: ApplicationInstance, settings: Settings, ctx: Context[ApplicationInstance]
) -> RemainingChildren:
    """Read the remaining children live: a stale cache must not decide a delete."""

    async def find(kind: Kind[Object]) -> Object | None:
        try:
            return await ctx.live(kind).find(instance.namespace, instance.name)
        except NotServed:
            return None  # no CRD, so no object

    release = await find(HELM_RELEASE)
    sources = [await find(kind) for kind in (HELM_REPOSITORY, OCI_REPOSITORY)]
    keeper = ""
    if release is not None and controls(instance.metadata, release):
        name = release.get("spec", "releaseName", default="")
        keeper = await keeper_other_than(instance.metadata, name, settings, ctx)
    return RemainingChildren(
        owner=instance.metadata,
        release=release,
        sources=tuple(source for source in sources if source is not None),
        keeper=keeper,
    )
