"""The state of a Cluster: its credential and its registration token, read live, and the controllers that work and that are missing.

Guarantees: tokens and credentials are kept in no cache, and no representation quotes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.errors import Forbidden, NotServed
from konverge.kinds import kind_of
from konverge.objects import Metadata, Object
from konverge.reconcilers.clusters.kinds import APPLIED, BACKUP, SECRET
from konverge.reconcilers.clusters.secrets import (
    AgentCredentials,
    SecretOwner,
    credentials_of,
    token_digest,
    token_of,
)
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import Authenticated
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE

if TYPE_CHECKING:
    from konverge.runtime import Context, Report

__all__ = ["ClusterProblem", "ObservedCluster", "observe", "owned_secrets", "present_objects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProblem:
    """Why no agent can run: a reason of Authenticated, and the remedy."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """A Cluster with what it refers to."""

    cluster: Cluster
    namespace: str
    """The namespace of the operator."""
    secret: Metadata | None = None
    """The Secret of the credential."""
    credentials: AgentCredentials | None = None
    """The stored credential, unless it was issued for another cluster id."""
    token: str = field(default="", repr=False)
    """The registration token; empty: none."""
    token_problem: ClusterProblem | None = None
    missing: tuple[str, ...] = ()
    """Controllers that the cluster lacks."""
    degraded: tuple[str, ...] = ()
    """Controllers of this operator that do not work."""

    @property
    def owner(self) -> SecretOwner:
        """The Cluster as the owner of its Secrets."""
        kind = kind_of(Cluster)
        return SecretOwner(
            api_version=kind.api_version,
            kind=kind.kind,
            name=self.cluster.name,
            uid=self.cluster.metadata.uid,
            cluster_id=self.cluster.spec.cluster_id,
        )

    @property
    def token_digest(self) -> str:
        """The digest of the registration token; empty: none."""
        return token_digest(self.token) if self.token else ""


async def observe(cluster: Cluster, settings: Settings, report: Report, ctx: Context[Cluster]) -> ObservedCluster:
    """Read the Secrets of a Cluster, and which controllers its cluster serves; `report` is about the controllers of this operator."""
    namespace = _operator_namespace(settings, ctx)
    secret = await ctx.live(SECRET).find(namespace, settings.credentials_secret)
    stored = credentials_of(secret)
    token, problem = await _token(cluster, namespace, settings, ctx)
    return ObservedCluster(
        cluster=cluster,
        namespace=namespace,
        secret=None if secret is None else secret.metadata,
        credentials=None if stored is None or stored.cluster_id != cluster.spec.cluster_id else stored,
        token=token,
        token_problem=problem,
        missing=await _missing(cluster, ctx),
        degraded=tuple(sorted(controller.name for controller in report.controllers if controller.problems)),
    )


async def owned_secrets(cluster: Cluster, settings: Settings, ctx: Context[Cluster]) -> tuple[Metadata, ...]:
    """Return the Secrets of the agent whose controller is this Cluster."""
    namespace, names = _operator_namespace(settings, ctx), (settings.credentials_secret, settings.journal_secret)
    stored = [await ctx.live(SECRET).find(namespace, name) for name in names]
    owned = (secret.metadata for secret in stored if secret is not None)
    return tuple(each for each in owned if each.controller is not None and each.controller.uid == cluster.uid)


def present_objects(ctx: Context[Cluster]) -> Callable[[], Iterable[Object]]:
    """Return a function that lists the objects whose status is reported, from the caches."""
    readers = [ctx.cache(kind) for kind in APPLIED if ctx.serves(kind)]
    return lambda: (object_ for reader in readers for object_ in reader.list())


def _operator_namespace(settings: Settings, ctx: Context[Cluster]) -> str:
    """Return the namespace of the operator."""
    return settings.namespace or ctx.client.config.namespace or "default"


async def _token(
    cluster: Cluster, namespace: str, settings: Settings, ctx: Context[Cluster]
) -> tuple[str, ClusterProblem | None]:
    """Return the spec's registration token; a Secret takes precedence over a token in the spec."""
    reference = cluster.spec.registration_token_secret_ref
    if reference is None:
        return cluster.spec.registration_token or "", None
    where = f"Secret {namespace}/{reference.name}, key {reference.key}"
    if reference.name not in settings.token_secrets:
        return "", ClusterProblem(
            reason=Authenticated.TOKEN_SECRET_MISSING,
            message=f"{where} is not read: add {reference.name} to the setting clusters.token_secrets, or name a Secret of this list",
        )
    try:
        secret = await ctx.live(SECRET).find(namespace, reference.name)
    except Forbidden:
        secret, where = None, f"{where} (the right to read it is missing)"
    token = token_of(secret, reference.key)
    if token:
        return token, None
    return "", ClusterProblem(
        reason=Authenticated.TOKEN_SECRET_MISSING, message=f"there is no registration token in {where}"
    )


async def _missing(cluster: Cluster, ctx: Context[Cluster]) -> tuple[str, ...]:
    """Return the controllers that the Cluster expects and whose kinds are not served."""
    expected = cluster.spec.capabilities
    if expected is None:
        return ()
    missing = []
    for name, wanted, kind in (("Flux", expected.flux, HELM_RELEASE), ("Velero", expected.velero, BACKUP)):
        if wanted:
            try:
                await ctx.client.resource(kind)
            except NotServed:
                missing.append(name)
    return tuple(missing)
