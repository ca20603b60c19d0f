"""Settings of the pools family: every number and word list, with unit, default and reason.

Guarantees: the defaults are safe to run with.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.names import ADJECTIVES, MAX_WORD, NOUNS
from konverge.reconcilers.pools.namespaces import InstanceNamespaces

__all__ = ["PoolSettings"]

Seconds = Annotated[float, Field(gt=0)]
Word = Annotated[str, Field(pattern=r"^[a-z]+$", max_length=MAX_WORD)]


def _some(words: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse an empty list, after the words themselves were found to be right."""
    if not words:
        raise ValueError("give at least one word")
    return words


Words = Annotated[tuple[Word, ...], AfterValidator(_some)]


class PoolSettings(BaseModel):
    """Settings of the controllers of pools and of Nextclouds.

    >>> PoolSettings(instance_namespace="clouds").creates_per_window
    10
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance_namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = (
        "nextcloud-instances"
    )
    """The namespace of new instances, of a pool that names none and of Nextclouds without a pool. It must exist."""
    namespaces: tuple[Annotated[str, Field(pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$", max_length=63)], ...] = ()
    """Further namespaces for instances of pools; `*` is every namespace. The daemon needs its rights on Secrets, releases, databases,
    volume claims and namespaces only in these namespaces and in instance_namespace. An instance elsewhere is reported and not
    changed."""
    namespaces_without_pool: tuple[Annotated[str, Field(pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")], ...] = ("*",)
    """The namespaces whose Nextclouds may have a new instance without a pool, in instance_namespace; * is every namespace."""
    creates_per_window: Annotated[int, Field(ge=1)] = 10
    """The most instances that a pool creates in a window: a large step must not overwhelm the API server or the databases."""
    window: Seconds = 60.0
    """Seconds of such a window."""
    retry: Seconds = 60.0
    """Seconds until a waiting claim is reconciled again, unless a watch reports a change before."""
    progress_deadline: Seconds = 1800.0
    """Seconds after which an unassigned instance counts as failed if it is not ready, or is no longer ready: its database takes minutes."""
    replace_backoff: Seconds = 60.0
    """Seconds until failed instances of a pool are replaced again; doubled with each round, until one instance becomes ready."""
    replace_backoff_limit: Seconds = 3600.0
    """The longest such time."""
    orphan_grace: Seconds = 600.0
    """Seconds until the instance of a deleted Nextcloud is reclaimed."""
    drift_limit: Annotated[int, Field(ge=1)] = 5
    """How many corrections of an instance within drift_window are normal; with more, the condition DriftFight is True."""
    drift_window: Seconds = 600.0
    """The window of the count of corrections, in seconds."""
    drift_pause: Seconds = 60.0
    """Seconds between corrections while DriftFight is True."""
    claims_at_once: Annotated[int, Field(ge=1)] = 4
    """Workers of the controller of Nextclouds."""
    pools_at_once: Annotated[int, Field(ge=1)] = 2
    """Workers of the controller of pools."""
    barrier: Seconds = 600.0
    """Seconds to wait until the caches show own writes. Longer than in other families: a stale cache could let a pool grow too large."""
    adjectives: Words = ADJECTIVES
    """The first words of names."""
    nouns: Words = NOUNS
    """The second words of names."""
    instances: MaterialSettings = MaterialSettings()
    """Settings of the controller that creates the objects of instances."""

    @property
    def instance_namespaces(self) -> InstanceNamespaces:
        """The namespaces of instances."""
        return InstanceNamespaces.of(self.instance_namespace, self.namespaces)
