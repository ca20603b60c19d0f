"""The reconciler of NstanceClusters: it reads the document of shards, fulfils the contract of a Cluster, and imports groups.

Guarantees: an invalid or missing document changes nothing about the shards in use. A group is imported once, after every shard has listed
its groups in this term of leadership; the API server is read before, so a stale cache creates no second pool. No existing object is
changed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import ValidationError

from konverge.crds.decoding import misfits, path_of, problem_words
from konverge.crds.machines_v1beta1 import FailureDomain, Initialization, NstanceCluster, NstanceClusterSpec
from konverge.errors import AlreadyExists, BadRequest, ConfigError, Invalid
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.clusters.decide import endpoint_of, shards_condition
from konverge.reconcilers.machines.clusters.render import imported_pool
from konverge.reconcilers.machines.gates import pause_of, show_other_namespace, show_pause
from konverge.reconcilers.machines.imports import ImportPlan, plan_imports
from konverge.reconcilers.machines.kinds import CONFIG_MAP, POOL
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.addresses import parse_shard_map
from konverge.reconcilers.machines.words import ClusterReason, MachinesAnnotation, MachinesCondition, MachinesEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.objects import Object
    from konverge.runtime import Context

__all__ = ["NstanceClusterReconciler"]


class NstanceClusterReconciler:
    """Reconciles NstanceClusters; the operator's own NstanceCluster also has the document of shards and the imports."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._reported: set[str] = set()

    async def reconcile(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> Outcome:
        """Read the document, report, and import."""
        settings, states = self._service.settings, self._service.states
        if not self._service.acts_in(cluster.namespace):
            show_other_namespace(ctx)
            return Done()
        ours = (cluster.namespace, cluster.name) == (self._service.namespace, settings.cluster_name)
        document = await self._read_document(cluster.namespace, ctx) if ours else ""
        if ours:
            authority = ctx.cache(CONFIG_MAP).metadata(cluster.namespace, settings.ca_configmap)
            self._service.use_authority("" if authority is None else authority.resource_version)
            certificate = self._service.problem
            condition = shards_condition(
                document=document, certificate=certificate, problems=states.problems, shards=states.expected
            )
            ctx.status.set_condition(condition.type, condition.status, condition.reason, condition.message)
        paused = pause_of(cluster.metadata, ctx.cache, cluster=cluster.name)
        show_pause(paused, ctx)
        if paused:
            return self._again(document, ours=ours)
        if MachinesAnnotation.EXTERNALLY_MANAGED not in (cluster.metadata.annotations or {}):
            await self._provision(cluster, ctx)
        refused = ours and await self._import(cluster, ctx)
        return self._again(document, ours=ours, refused=refused)

    def _again(self, document: str, *, ours: bool, refused: bool = False) -> Outcome:
        """Reconcile again while a problem lasts that sends no event."""
        if refused or (ours and (document or self._service.problem)):
            return RequeueAfter(timedelta(seconds=self._service.settings.unreachable_retry))
        return Done()

    async def _read_document(self, namespace: str, ctx: Context[NstanceCluster]) -> str:
        """Use the document of shards; returns its problem, "" if there is none."""
        name = self._service.settings.shards_configmap
        found = await ctx.live(CONFIG_MAP).find(namespace, name)
        if found is None:
            return (
                f"there is no ConfigMap {name}: create it, with a shard as key and the address of its server as value"
            )
        try:
            shards = parse_shard_map(found.get("data", default={}) or {})
            self._check_owner(shards.cluster_id, shards.tenant)
        except ConfigError as error:
            return f"ConfigMap {name}: {error}"
        self._service.use(shards)
        return ""

    def _check_owner(self, cluster_id: str, tenant: str) -> None:
        settings = self._service.settings
        for what, said, ours in (
            ("cluster_id", cluster_id, settings.cluster_id),
            ("tenant", tenant, settings.tenant),
        ):
            if said not in ("", ours):
                raise ConfigError(f"its {what} is {said!r}, the settings say {ours!r}")

    async def _provision(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> None:
        if cluster.spec.control_plane_endpoint is None:
            endpoint = endpoint_of(self._service.settings.control_plane_endpoint, ctx.client.config.server)
            wanted = NstanceCluster.new(
                cluster.name, cluster.namespace, spec=NstanceClusterSpec(control_plane_endpoint=endpoint)
            )
            await ctx.apply(wanted, force=True)
        draft = ctx.status.draft
        draft.initialization = Initialization(provisioned=True)
        if self._service.states.expected is not None:
            draft.failure_domains = tuple(FailureDomain(name=shard) for shard in self._service.states.expected)
        ctx.status.set_condition(
            MachinesCondition.READY, True, ClusterReason.PROVISIONED, "there is nothing to provision for a Cluster"
        )

    async def _import(self, cluster: NstanceCluster, ctx: Context[NstanceCluster]) -> bool:
        """Create the missing pools; returns whether the API server refused a pool, which a webhook may admit later."""
        refused = False
        plan = self._plan(ctx.cache(POOL).list(namespace=cluster.namespace))
        if plan.pools:
            plan = self._plan(await ctx.live(POOL).list(cluster.namespace))
        for found in plan.pools:
            try:
                await ctx.client.create(
                    imported_pool(
                        found,
                        namespace=cluster.namespace,
                        cluster=cluster.name,
                        labels=self._service.settings.filter_labels,
                    )
                )
            except AlreadyExists:
                self._report(found.group, "the name is taken by a pool of another group", ctx)
            except ValidationError as error:  # the server has other limits than the definition
                first = misfits(error)[0]
                self._report(found.group, f"{path_of(first['loc'])}: {problem_words(first)}", ctx)
            except (BadRequest, Invalid) as error:
                refused = True
                self._report(found.group, str(error), ctx)
            else:
                ctx.event(MachinesEvent.IMPORTED, f"group {found.group} of {', '.join(found.shards)} is now a pool")
        for name in plan.refused:
            self._report(name, "it is not an identifier, so no object can have its name", ctx)
        return refused

    def _plan(self, pools: Iterable[Object]) -> ImportPlan:
        states = self._service.states
        existing = [str(pool.get("spec", "group", default="")) for pool in pools]
        return plan_imports(states.expected or (), states.listings, {*existing, *states.unsettled})

    def _report(self, group: str, why: str, ctx: Context[NstanceCluster]) -> None:
        if group not in self._reported:
            self._reported.add(group)
            ctx.event(MachinesEvent.NOT_IMPORTED, f"group {group[:64]!r} is not imported: {why}", type_="Warning")
