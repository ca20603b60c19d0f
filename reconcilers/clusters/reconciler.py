"""The reconciler of Clusters: reads token and credential, decides which agent runs, clears used tokens and requests, and reports.

`reconcile`: observe; `plan_status`. The agent registers, polls and stores credentials (`agent.py`); the service returns its state.
`finalize`: stop the agent, delete its Secrets.

Guarantees: tokens and credentials are read live and kept in no cache; of a token, only the first part of its SHA-256 is reported. A token,
a request for rotation and an annotation are removed only once their effect is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from konverge.crds.ops_v1alpha1 import Cluster, ClusterStatus
from konverge.errors import BadRequest, Forbidden, Invalid, NotServed, RetryAfter
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.clusters.agent_state import AgentConfig
from konverge.reconcilers.clusters.decide import ClusterProblem, ObservedCluster, endpoint_problem, plan_status
from konverge.reconcilers.clusters.kinds import APPLIED, BACKUP, SECRET
from konverge.reconcilers.clusters.secrets import (
    AgentCredentials,
    SecretOwner,
    credentials_of,
    issued_elsewhere,
    owned_by,
    server_of,
    token_digest,
    token_of,
)
from konverge.reconcilers.clusters.service import AgentService
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import (
    Annotation,
    Authenticated,
    ClusterCondition,
    ControllersHealthy,
    Event,
    PhaseName,
)
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge.runtime import Delete, Plan

if TYPE_CHECKING:
    from konverge.runtime import Context, Report

__all__ = ["ClusterReconciler", "report_failure"]

_BY_SPEC, _BY_ANNOTATION = "spec", "annotation"
_BY_CLUSTER = (_BY_SPEC, _BY_ANNOTATION)
"""Requests for a rotation by the Cluster itself; all other requests are from jobs."""


class ClusterReconciler:
    """Reconciles a Cluster into a running agent. `report` returns the readiness of the controllers of the manager."""

    def __init__(self, settings: Settings, service: AgentService, report: Callable[[], Report]) -> None:
        self.settings = settings
        self._service = service
        self._report = report

    async def reconcile(self, cluster: Cluster, ctx: Context[Cluster]) -> Outcome:
        """Let the agent run, and set the status from its state."""
        namespace = operator_namespace(self.settings, ctx)
        self._service.statuses = _statuses(ctx)
        owner = owner_of(cluster)
        secret = await ctx.live(SECRET).find(namespace, self.settings.credentials_secret)
        stored = credentials_of(secret)
        if stored is not None and stored.cluster_id != cluster.spec.cluster_id:
            stored = None
        token, problem = await self._token(cluster, namespace, ctx)
        problem = endpoint_problem(cluster.endpoint, self.settings) or problem
        if secret is not None and not owned_by(owner, secret.metadata):
            problem = ClusterProblem(
                reason=Authenticated.VALIDATION_FAILED,
                message=f"the Secret {namespace}/{secret.name} belongs to another Cluster; there can be one in a cluster: delete one of "
                "them",
            )
        digest = token_digest(token) if token else ""
        if problem is not None and problem.reason == Authenticated.TOKEN_SECRET_MISSING and stored is not None:
            problem = None  # the Secret may go once the cluster is registered
        elsewhere = stored is not None and not stored.belongs_to(server_of(cluster.endpoint))
        if problem is None and stored is not None and elsewhere and digest in ("", stored.token_digest):
            problem = ClusterProblem(
                reason=Authenticated.CREDENTIAL_MISSING, message=issued_elsewhere(stored, cluster.endpoint)
            )
        if problem is None and stored is None and not token:
            problem = ClusterProblem(
                reason=Authenticated.CREDENTIAL_MISSING,
                message="there is no credential yet: give a registration token in registrationTokenSecretRef",
            )
        rotate = _rotation(cluster)
        registers = bool(token) and (stored is None or stored.token_digest != digest)
        done = bool(rotate) and stored is not None and stored.rotated_for == rotate
        if problem is None:
            config = AgentConfig(
                owner=owner,
                endpoint=cluster.endpoint,
                namespace=namespace,
                token=token if registers else "",
                token_digest=digest if registers else "",
                rotate="" if done else rotate,
                settings=self.settings,
            )
            self._service.want(cluster.name, config, "" if secret is None else secret.metadata.resource_version)
        else:
            await self._service.forget(cluster.name)
        if await self._clear(cluster, ctx, token_used=bool(digest) and not registers, rotated=done):
            return Done()  # the change is an event, and the next reconcile writes the status
        if not rotate and stored is not None and stored.rotated_for in _BY_CLUSTER:
            await self._forget_rotation(secret, ctx)
        state = self._service.state(cluster.name)
        self._measure(stored, ctx.now())
        observed = ObservedCluster(
            cluster=cluster,
            namespace=namespace,
            credentials=stored,
            token_digest=digest,
            problem=problem,
            state=state,
            overflowed=self._service.overflowed(cluster.name),
            missing=await _missing(cluster, ctx),
            degraded=_degraded(self._report()),
        )
        return await ctx.execute(plan_status(observed, self.settings, ctx.now()))

    async def _token(
        self, cluster: Cluster, namespace: str, ctx: Context[Cluster]
    ) -> tuple[str, ClusterProblem | None]:
        """Return the spec's registration token; a Secret takes precedence over a token in the spec."""
        reference = cluster.spec.registration_token_secret_ref
        if reference is None:
            return cluster.spec.registration_token or "", None
        where = f"Secret {namespace}/{reference.name}, key {reference.key}"
        if reference.name not in self.settings.token_secrets:
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

    async def _forget_rotation(self, secret: Object | None, ctx: Context[Cluster]) -> None:
        """Forget a request that is done and removed, so that the next request differs."""
        if secret is not None:
            about = {"uid": secret.metadata.uid, "annotations": {Annotation.ROTATED_FOR: None}}
            await ctx.patch(SECRET, secret.name, secret.namespace, patch={"metadata": about})

    async def _clear(self, cluster: Cluster, ctx: Context[Cluster], *, token_used: bool, rotated: bool) -> bool:
        """Remove used values from the object: a token in the spec, and requests for a rotation; returns whether the object changed."""
        patch: dict[str, Any] = {}
        spec: dict[str, Any] = {}
        if token_used and cluster.spec.registration_token:
            spec["registrationToken"] = None
        if rotated and cluster.spec.rotate_credentials:
            spec["rotateCredentials"] = None
        if spec:
            patch["spec"] = spec
        if rotated and Annotation.ROTATE in cluster.annotations:
            patch["metadata"] = {"annotations": {Annotation.ROTATE: None}}
        if not patch:
            return False
        try:
            await ctx.patch(Cluster, expect=cluster, patch=patch)
        except (Invalid, BadRequest) as error:  # as a rule a webhook's refusal; heartbeats continue
            raise RetryAfter(
                self.settings.heartbeat, f"a used token or request cannot be removed ({type(error).__name__})"
            ) from None
        if rotated:
            ctx.event(Event.CREDENTIAL_ROTATED, "the credential was replaced by a new one")
        return True

    def _measure(self, stored: AgentCredentials | None, now: datetime) -> None:
        issued = None if stored is None else stored.issued()
        if issued is not None:
            self._service.metrics.credential_age.set(max((now - issued.astimezone(UTC)).total_seconds(), 0.0))

    async def finalize(self, cluster: Cluster, ctx: Context[Cluster]) -> Outcome:
        """Stop the agent, then delete its Secrets."""
        if cluster.status.phase != PhaseName.TERMINATING:
            return await ctx.execute(
                Plan(draft=ClusterStatus(phase=PhaseName.TERMINATING), outcome=RequeueAfter(NEXT_STEP))
            )
        await self._service.forget(cluster.name)
        namespace = operator_namespace(self.settings, ctx)
        for name in (self.settings.credentials_secret, self.settings.journal_secret):
            secret = await ctx.live(SECRET).find(namespace, name)
            reference = None if secret is None else secret.metadata.controller
            if secret is not None and reference is not None and reference.uid == cluster.metadata.uid:
                await ctx.execute(Plan(deletes=(Delete(SECRET, name, namespace, uid=secret.metadata.uid),)))
        return Done()


def report_failure(_cluster: Cluster, ctx: Context[Cluster], message: str) -> None:
    """Report a reconcile that failed, and a Cluster that does not decode: a Cluster has no condition Ready."""
    ctx.status.set_condition(
        ClusterCondition.CONTROLLERS_HEALTHY, False, ControllersHealthy.CONTROLLER_DEGRADED, message
    )


def owner_of(cluster: Cluster) -> SecretOwner:
    """Return a Cluster as the owner of its Secrets."""
    kind = kind_of(Cluster)
    return SecretOwner(
        api_version=kind.api_version,
        kind=kind.kind,
        name=cluster.name,
        uid=cluster.metadata.uid,
        cluster_id=cluster.spec.cluster_id,
    )


def operator_namespace(settings: Settings, ctx: Context[Cluster]) -> str:
    """Return the namespace of the operator."""
    return settings.namespace or ctx.client.config.namespace or "default"


def _rotation(cluster: Cluster) -> str:
    """Return the request to replace the credential, "" if there is none."""
    if cluster.spec.rotate_credentials:
        return _BY_SPEC
    return _BY_ANNOTATION if Annotation.ROTATE in cluster.annotations else ""


def _statuses(ctx: Context[Cluster]) -> Callable[[], Iterable[Object]]:
    """Return a function that lists the objects whose status is reported, from the caches."""
    readers = [ctx.cache(kind) for kind in APPLIED if ctx.serves(kind)]
    return lambda: (object_ for reader in readers for object_ in reader.list())


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


def _degraded(report: Report) -> tuple[str, ...]:
    """Return the controllers of this operator that do not work."""
    return tuple(sorted(controller.name for controller in report.controllers if controller.problems))
