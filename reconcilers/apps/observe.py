"""The inputs of one reconcile: cache reads, gathered into a frozen `ObservedInstance`.

Guarantees: takes no decision and returns no content of a Secret or ConfigMap. The only live read checks that the key of the values exists,
and happens only during a rollout: at rest a reconcile only reads caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Forbidden
from konverge.kinds import Kind
from konverge.objects import Metadata, Object
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
    from konverge.runtime import Context

__all__ = ["ObservedInstance", "check_key", "needed_kinds", "observe", "controls", "values_of"]


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
        found = await ctx.live(kind).find(values.namespace, values.name)
    except Forbidden:
        return values
    if found is None:
        return replace(values, token="")  # the object was deleted
    has_key = any(values.key in (found.get(part, default={}) or {}) for part in ("data", "binaryData"))
    return replace(values, has_key=has_key)
