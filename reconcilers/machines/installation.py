"""The family's controllers in a manager: their watches, predicates, indexes, background work and RBAC rules."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from konverge.client.credentials import TlsMaterial
from konverge.crds.machines_v1beta1 import (
    GROUP,
    NstanceCluster,
    NstanceMachine,
    NstanceMachinePool,
    NstanceShardGroup,
)
from konverge.errors import UsageError
from konverge.informers import Change
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.reconcilers.machines.clusters.kubeconfig import secret_name
from konverge.reconcilers.machines.clusters.reconciler import NstanceClusterReconciler
from konverge.reconcilers.machines.gates import pause_of, pause_rule
from konverge.reconcilers.machines.groups.observe import pause_of_group
from konverge.reconcilers.machines.groups.reconciler import ShardGroupReconciler
from konverge.reconcilers.machines.instances import indexes as instances
from konverge.reconcilers.machines.instances.reconciler import NstanceMachineReconciler
from konverge.reconcilers.machines.kinds import (
    CAPI_GROUP,
    CLUSTER,
    CONFIG_MAP,
    MACHINE,
    MACHINE_POOL,
    NODE,
    NSTANCE_CLUSTER,
    NSTANCE_MACHINE,
    POD,
    POOL,
    SHARD_GROUP,
)
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.ondemand import indexes as pods
from konverge.reconcilers.machines.ondemand.reconciler import OnDemandReconciler
from konverge.reconcilers.machines.pools import indexes
from konverge.reconcilers.machines.pools.protection import protecting
from konverge.reconcilers.machines.pools.reconciler import MachinePoolReconciler
from konverge.reconcilers.machines.records import BY_RECORDED_ID, recorded_ids
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.words import MachinesController, MachinesFinalizer
from konverge.runtime import Controller, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.objects import Metadata, Object
    from konverge.reconcilers.machines.shards.dialing import Dial
    from konverge.runtime import Caches, Manager

__all__ = [
    "cluster_controller",
    "group_controller",
    "install",
    "machine_controller",
    "on_demand_controller",
    "pool_controller",
    "rules",
]

W = TypeVar("W", bound=Resource)

_NO_STATUS = "ondemand"
"""The suffix of the field manager of the controller of pods on demand, which writes no status."""


def rules(settings: MachineSettings) -> tuple[Rule, ...]:
    """Return the RBAC rules of the background work: the identity in the operator's namespace, its other objects there, and drains.

    >>> [rule.verbs for rule in rules(MachineSettings()) if rule.names == ("nstance-operator-nonce",)]
    [('delete',)]
    """
    names, where = settings.identity_names, settings.namespace
    read = (names.certificate_secret, names.key_secret, names.nonce_secret)
    stub = (
        Rule(GROUP, ("nstancecontrolplanes",), ("create", "get"), namespace=where),
        Rule(GROUP, ("nstancecontrolplanes/status",), ("patch",), namespace=where),
    )
    account, secret = settings.workload_account, secret_name(settings.cluster_name)
    connection = (
        Rule("", ("serviceaccounts/token",), ("create",), (account,), where),
        Rule("", ("secrets",), ("get", "patch"), (secret,), where),
    )
    return (
        *(stub if settings.control_plane_stub else ()),
        *(connection if account else ()),
        Rule("", ("configmaps",), ("get",), (settings.ca_configmap, settings.shards_configmap), where),
        Rule("", ("secrets",), ("create",), namespace=where),
        Rule("", ("secrets",), ("get",), read, where),
        Rule("", ("secrets",), ("update",), (names.certificate_secret, names.key_secret), where),
        Rule("", ("secrets",), ("delete",), (names.nonce_secret,), where),
        Rule(CAPI_GROUP, ("clusters",), ("create", "get"), namespace=where),
        Rule(GROUP, ("nstanceclusters",), ("create", "get"), namespace=where),
        Rule(GROUP, ("nstancemachinepools", "nstancemachines", "nstanceshardgroups"), ("list",)),
        Rule("", ("nodes",), ("delete", "get", "list", "patch")),
        Rule("", ("pods",), ("list",)),
        Rule("", ("pods/eviction",), ("create",)),
    )


def _named(names: Collection[str], change: Change) -> bool:
    shown = change.new or change.old
    return shown is not None and shown.metadata.name in names


def _clusters(changed: Any, caches: Caches) -> Iterable[Key]:
    return caches(NstanceCluster).keys(namespace=changed.namespace)


def _groups_of_pool(pool: Any, caches: Caches) -> Iterable[Key]:
    groups = caches(NstanceShardGroup).metadata_by_index("owner", pool.metadata.uid)
    return [Key("", kind_of(NstanceShardGroup), group.namespace, group.name) for group in groups]


def _nothing(_: Any, __: Caches) -> Iterable[Key]:
    """Map no object: the records are read, and a change of them needs no reconcile."""
    return ()


def _groups_of_cluster(cluster: Any, caches: Caches) -> Iterable[Key]:
    return caches(NstanceShardGroup).keys(namespace=cluster.namespace)


def _of(what: type[W] | Kind[W], settings: MachineSettings) -> Controller[W]:
    """Begin a controller of the objects that the filter lets through. It calls the servers, or depends on their responses."""
    described = Controller.of(what).calls("the Nstance servers")
    return described.selecting(settings.selector) if settings.selector else described


def cluster_controller(service: NstanceService) -> Controller[NstanceCluster]:
    """Return the controller of NstanceClusters."""
    settings = service.settings
    return (
        _of(NstanceCluster, service.settings)
        .named(MachinesController.CLUSTER)
        .pausable(pause_rule(service, _pause_of_cluster), observing=True)
        .counts_conditions()
        .watches(
            CONFIG_MAP,
            to=_clusters,
            metadata_only=True,
            when=partial(_named, (settings.shards_configmap, settings.ca_configmap)),
            namespaces=(settings.namespace,) if settings.namespace else (),
        )
        .watches(CLUSTER, to=_clusters, when=indexes.pauses)
        .watches(POOL, to=_clusters, when=indexes.pause_or_life_changed)
        .reads_live(CONFIG_MAP, POOL)
        .needs(
            Rule(GROUP, ("nstancemachinepools",), ("create", "list")),
            Rule(GROUP, ("nstanceclusters",), ("patch",)),
            *rules(settings),  # of the background work, which starts and ends with the family's controllers
        )
        .reconciled_by(NstanceClusterReconciler(service))
    )


def _may_hold(metadata: Metadata, _: Caches, *, service: NstanceService) -> bool:
    return service.acts_in(metadata.namespace)


def _pause_of_cluster(metadata: Metadata, caches: Caches, _: str) -> str:
    return pause_of(metadata, caches, metadata.name)


def pool_controller(service: NstanceService) -> Controller[NstanceMachinePool]:
    """Return the controller of NstanceMachinePools."""
    return (
        _of(NstanceMachinePool, service.settings)
        .named(MachinesController.POOL)
        .finalizer(MachinesFinalizer.POOL, when=partial(_may_hold, service=service))
        .pausable(pause_rule(service), deletion=True)
        .counts_conditions()
        .owns(NstanceShardGroup)
        .watches(POOL, to=indexes.pools_of_group, when=indexes.pause_or_life_changed)
        .watches(MACHINE_POOL, to=indexes.pool_of_machine_pool)
        .watches(NODE, to=indexes.pools_of_node, when=indexes.new_provider_id)
        .watches(CLUSTER, to=indexes.pools_of_cluster, when=indexes.pauses)
        .indexes(POOL, indexes.BY_GROUP, by=indexes.by_group)
        .indexes(POOL, indexes.BY_INSTANCE, by=indexes.by_pool_instance)
        .indexes(MACHINE_POOL, indexes.BY_POOL, by=indexes.by_pool)
        .indexes(NODE, indexes.BY_INSTANCE, by=indexes.by_node_instance)
        .reads_live()
        .needs(
            Rule(CAPI_GROUP, ("machinepools",), ("create",)),
            Rule(GROUP, ("nstancemachinepools",), ("patch",)),
        )
        .reconciled_by(MachinePoolReconciler(service))
    )


def group_controller(service: NstanceService, metrics: MachineMetrics) -> Controller[NstanceShardGroup]:
    """Return the controller of NstanceShardGroups."""
    return (
        _of(NstanceShardGroup, service.settings)
        .named(MachinesController.GROUP)
        .finalizer(MachinesFinalizer.GROUP, when=partial(_may_hold, service=service))
        .pausable(pause_rule(service, pause_of_group), deletion=True, observing=True)
        .counts_conditions()
        .watches(POOL, to=_groups_of_pool, when=indexes.share_changed)
        .watches(CLUSTER, to=_groups_of_cluster, when=indexes.pauses)
        .watches(NSTANCE_MACHINE, to=_nothing)
        .indexes(SHARD_GROUP, BY_RECORDED_ID, by=recorded_ids)
        .indexes(NSTANCE_MACHINE, BY_RECORDED_ID, by=recorded_ids)
        .reads_live()
        .with_(concurrency=service.settings.groups_at_once)
        .reconciled_by(ShardGroupReconciler(service, metrics))
    )


def _machines_of_cluster(cluster: Any, caches: Caches) -> Iterable[Key]:
    return caches(NstanceMachine).keys(namespace=cluster.namespace)


def machine_controller(service: NstanceService) -> Controller[NstanceMachine]:
    """Return the controller of NstanceMachines."""
    return (
        _of(NstanceMachine, service.settings)
        .named(MachinesController.MACHINE)
        .finalizer(MachinesFinalizer.MACHINE, when=partial(_may_hold, service=service))
        .pausable(pause_rule(service), deletion=True)
        .counts_conditions()
        .watches(MACHINE, to=instances.machine_of_owner)
        .watches(NODE, to=instances.machine_of_node, when=indexes.new_provider_id_or_addresses)
        .watches(CLUSTER, to=_machines_of_cluster, when=indexes.pauses)
        .watches(SHARD_GROUP, to=_nothing)
        .indexes(SHARD_GROUP, BY_RECORDED_ID, by=recorded_ids)
        .indexes(NSTANCE_MACHINE, BY_RECORDED_ID, by=recorded_ids)
        .indexes(NSTANCE_MACHINE, instances.BY_CLAIMED_ID, by=instances.by_claimed_id)
        .indexes(NSTANCE_MACHINE, indexes.BY_INSTANCE, by=instances.by_provider_name)
        .reads_live()
        .needs(
            Rule(CAPI_GROUP, ("machines",), ("delete",)),
            Rule(CAPI_GROUP, ("machines/status",), ("patch",)),
            Rule(GROUP, ("nstancemachines",), ("delete", "patch")),
        )
        .with_(concurrency=service.settings.machines_at_once)
        .reconciled_by(NstanceMachineReconciler(service))
    )


def on_demand_controller(service: NstanceService) -> Controller[Object]:
    """Return the controller of pods on demand: one key, the NstanceCluster of the operator, for all of them.

    With Pods as its primary kind it would need the right to write their status, and would cache whole Pods.
    """
    return (
        _of(NSTANCE_CLUSTER, service.settings)
        .named(MachinesController.ON_DEMAND)
        .writes_status_as(_NO_STATUS)
        .pausable(pause_rule(service))
        .watches(POD, to=pods.clusters_of_pod, metadata_only=True)
        .watches(MACHINE, to=pods.clusters_of_object)
        .watches(NSTANCE_MACHINE, to=pods.clusters_of_object)
        .watches(CLUSTER, to=_clusters, when=indexes.pauses_or_goes)
        .indexes(POD, pods.BY_DEMAND, by=pods.by_demand)
        .indexes(MACHINE, pods.BY_POD, by=pods.by_pod)
        .indexes(NSTANCE_MACHINE, pods.BY_POD, by=pods.by_pod)
        .reads_live(POD, MACHINE, NSTANCE_MACHINE, CLUSTER)
        .needs(
            Rule(CAPI_GROUP, ("machines",), ("create", "delete")),
            Rule(GROUP, ("nstancemachines",), ("create", "delete")),
        )
        .reconciled_by(OnDemandReconciler(service))
    )


def install(
    manager: Manager,
    settings: MachineSettings | None = None,
    *,
    dial: Callable[[TlsMaterial], Awaitable[Dial]] | None = None,
    entropy: Callable[[int], bytes] = secrets.token_bytes,
    random: Random | None = None,
) -> None:
    """Add the family's controllers, metrics and background work to a manager.

    `dial` creates channels to servers; tests give one to a double in the same process (`konverge_testing.nstance`). `entropy` returns the
    random bytes of the operator's key.

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['nstancecluster', 'nstancemachinepool', 'nstanceshardgroup', 'nstancemachine', 'ondemandpod']
    """
    if manager.settings.namespace:
        raise UsageError(
            "the family of machines reads Nodes, which belong to no namespace: install it into a manager without a namespace"
        )
    chosen = MachineSettings() if settings is None else settings
    metrics = MachineMetrics.within(manager.metrics)
    service = NstanceService(
        chosen,
        metrics,
        home=lambda: manager.client.config.namespace,
        dial=dial,
        entropy=entropy,
        random=random,
    )
    manager.add(cluster_controller(service))
    manager.add(pool_controller(service))
    manager.add(group_controller(service, metrics))
    manager.add(machine_controller(service))
    if chosen.on_demand_pods:
        manager.add(on_demand_controller(service))
    reached = manager.settings.webhooks
    if chosen.protect_at_admission or (chosen.protect_at_admission is None and (reached.service or reached.url)):
        manager.add(protecting())
    manager.run_while_leading("nstance", service.run, note=service.note)
