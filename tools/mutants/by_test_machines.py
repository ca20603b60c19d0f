"""Planted faults of the family of machines, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["MACHINES"]

FAMILY: Final = "konverge.reconcilers.machines."
INSTANCES: Final = "tests/scenarios/machines/test_instances.py::"
CRASHES: Final = "tests/scenarios/machines/test_crashes_at_calls.py::"
REMOVAL: Final = "tests/scenarios/machines/test_node_removal.py::"
DRAINS: Final = "tests/scenarios/machines/test_drains.py::"
ON_DEMAND: Final = "tests/scenarios/machines/test_ondemand.py::"
POOLS: Final = "tests/scenarios/machines/test_pools.py::"

TRUST: Final = "tests/scenarios/machines/test_trust.py::"
SERVERS: Final = "tests/scenarios/machines/test_trust_of_servers.py::"
CONNECTION: Final = "tests/scenarios/machines/test_connection.py::"

MACHINES: Final = (
    Mutant(
        "machines-kubeconfig-not-renewed",
        "the token in the kubeconfig of Cluster API ends",
        FAMILY + "clusters.kubeconfig",
        "is_due",
        "not _LEFT <= left <= life if age is None else age > life - _LEFT",
        "False",
        test=CONNECTION + "test_the_kubeconfig_is_renewed_before_its_token_ends",
    ),
    Mutant(
        "machines-kubeconfig-by-a-wrong-clock",
        "a process whose clock is slow lets the token in the kubeconfig of Cluster API end",
        FAMILY + "clusters.kubeconfig",
        "is_due",
        "not _LEFT <= left <= life if age is None else age > life - _LEFT",
        "left < _LEFT",
        test=CONNECTION + "test_a_leader_whose_clock_is_wrong_renews_the_kubeconfig_before_its_token_ends",
    ),
    Mutant(
        "machines-certificate-by-a-slow-clock",
        "a process whose clock is slow lets its certificate expire",
        FAMILY + "identity.certificates",
        "OperatorCertificate.renew_at",
        "now < self.not_before",
        "False",
        test=CONNECTION + "test_a_leader_whose_clock_is_slow_renews_its_certificate_before_it_expires",
    ),
    Mutant(
        "machines-imported-in-part",
        "a static group whose pool was deleted becomes a pool of the shards that listed it first",
        FAMILY + "clusters.observe",
        "_imports",
        "{*existing, *states.unsettled}",
        "existing",
        test=POOLS
        + "test_a_static_group_whose_pool_was_deleted_is_imported_only_after_every_shard_has_listed_it_again",
    ),
    Mutant(
        "machines-kubeconfig-of-an-administrator",
        "the kubeconfig of an administrator is overwritten",
        FAMILY + "clusters.kubeconfig",
        "is_ours",
        "MachinesAnnotation.TOKEN_EXPIRY in (secret.metadata.annotations or {})",
        "True",
        test=CONNECTION + "test_the_kubeconfig_of_an_administrator_is_left_alone",
    ),
    Mutant(
        "machines-control-plane-not-initialized",
        "the control plane gets no status, so Cluster API never counts the Cluster as initialized",
        FAMILY + "clusters.render",
        "control_plane_status",
        "{'controlPlaneInitialized': True}",
        "{}",
        test=CONNECTION + "test_by_default_cluster_api_sees_nodes_at_once_and_removes_that_of_a_deleted_machine",
    ),
    Mutant(
        "machines-id-stored-late",
        "an instance is created before its id is stored",
        FAMILY + "instances.reconciler",
        "NstanceMachineReconciler.reconcile",
        "await ctx.execute(plan_place(machine, place))",
        "pass",
        test=INSTANCES + "test_a_machine_gets_an_instance_and_the_fields_that_cluster_api_reads",
    ),
    Mutant(
        "machines-place-that-was-copied",
        "an NstanceMachine takes the instance of the one that its annotation was copied from",
        FAMILY + "instances.ownership",
        "_is_strongest",
        "all(strength < rival.strength(wanted) for rival in rivals if wanted in rival.ids)",
        "True",
        test=INSTANCES + "test_a_copied_object_shares_no_instance_with_the_first",
    ),
    Mutant(
        "machines-of-every-namespace",
        "objects of every namespace reach the servers",
        FAMILY + "service",
        "NstanceService.acts_in",
        "namespace == self.namespace",
        "True",
        test=TRUST + "test_an_object_of_another_namespace_reports_so_and_reaches_no_server",
    ),
    Mutant(
        "machines-instance-by-annotation",
        "an annotation gives an NstanceMachine the instance of another pool",
        FAMILY + "instances.ownership",
        "owned_place",
        "own.annotated if adopts else NotPlaced(MachineReason.FOREIGN_INSTANCE, _foreign(own.annotated))",
        "own.annotated",
        test=TRUST + "test_a_moved_object_takes_its_instance_over_only_if_an_administrator_allows_it",
    ),
    Mutant(
        "machines-settings-of-a-shard-group",
        "a shard group sends variables of another writer than its pool",
        FAMILY + "groups.shares",
        "pool_share",
        "group.spec.model_copy(update=settings)",
        "group.spec",
        test=TRUST + "test_settings_that_another_writer_added_to_a_shard_group_are_not_sent",
    ),
    Mutant(
        "machines-pods-without-allowance",
        "a pod of any namespace gets an instance",
        FAMILY + "ondemand.allowances",
        "demand_problem",
        "demand.pod.namespace == home",
        "True",
        test=ON_DEMAND + "test_a_pod_without_an_allowance_gets_an_event_and_no_instance",
    ),
    Mutant(
        "machines-node-of-another-shard",
        "a server has the Node of another shard drained",
        FAMILY + "records",
        "ShardRecords.is_foreign",
        "exact != {shard}",
        "False",
        test=SERVERS + "test_a_drain_of_another_shards_instance_touches_no_node",
    ),
    Mutant(
        "machines-lost-instance-replaced",
        "an instance that is gone is created again",
        FAMILY + "instances.act",
        "query_or_create",
        "if machine.status.instance_id:\n    return None",
        "pass",
        test=INSTANCES + "test_an_instance_that_the_server_forgot_is_not_replaced",
    ),
    Mutant(
        "machines-owner-not-awaited",
        "an instance is created before a Machine owns the NstanceMachine",
        FAMILY + "instances.places",
        "choose_place",
        "not request.has_machine",
        "False",
        test=INSTANCES + "test_nothing_is_created_before_the_machine_owns_it",
    ),
    Mutant(
        "machines-drained-id-dropped",
        "the id of a draining instance leaves its pool, so that Cluster API deletes the Node with its pods",
        FAMILY + "pools.decide",
        "plan_pool",
        "{*observed.kept, *ids}",
        "ids",
        test=POOLS + "test_a_node_keeps_its_id_in_the_pool_until_its_drained_instance_is_gone",
    ),
    Mutant(
        "machines-drain-acknowledged-late",
        "a drain that pods block is acknowledged when its instance is deleted already",
        FAMILY + "drains.drain",
        "InstanceDrain.take",
        "now + times.give_up",
        "now + times.delete + 20.0",
        test=DRAINS + "test_each_of_several_drains_is_acknowledged_before_its_deletion_whatever_keeps_its_pods",
    ),
    Mutant(
        "machines-node-deleted-early",
        "the Node of a drained instance is deleted while the instance is still there",
        FAMILY + "drains.removal",
        "NodeRemoval._is_deleted",
        "is_gone((await self._shard(place.shard).instance_state(place.instance_id)).status)",
        "(await self._shard(place.shard).instance_state(place.instance_id)).status is not None",
        test=REMOVAL + "test_a_node_goes_after_its_instance_and_an_event_tells_it",
    ),
    Mutant(
        "machines-node-deleted-by-guess",
        "the Node of an instance whose shard cannot be asked counts as one without instance",
        FAMILY + "drains.removal",
        "NodeRemoval._is_deleted",
        "failure.kind is FailureKind.NOT_FOUND",
        "True",
        test=REMOVAL + "test_a_node_whose_shard_is_away_stays_until_it_is_back",
    ),
    Mutant(
        "machines-node-deleted-alive",
        "a Node is deleted although its kubelet reports",
        FAMILY + "drains.decide",
        "removable_instance",
        "ready is not None and ready.is_true",
        "False",
        test=REMOVAL + "test_a_node_whose_kubelet_still_reports_stays_until_it_does_not",
    ),
    Mutant(
        "machines-on-demand-believes-an-absence",
        "a Machine is deleted, with the instance of a pod that runs, because a stale cache does not show its NstanceMachine",
        FAMILY + "ondemand.decide",
        "OnDemandStep.rests_on_absence",
        "self.creates or self.action in (OnDemandAction.REPLACE_MACHINE, OnDemandAction.DELETE_INFRASTRUCTURE)",
        "self.creates",
        test=ON_DEMAND + "test_a_machine_whose_infrastructure_the_cache_does_not_show_is_kept",
    ),
    Mutant(
        "machines-on-demand-outlives-its-cluster",
        "Machines are made for a Cluster that is being deleted, and Cluster API deletes them, without end",
        FAMILY + "ondemand.observe",
        "cluster_ends",
        "cluster is None or cluster.metadata.deleting",
        "False",
        test=ON_DEMAND + "test_no_machine_is_made_while_the_cluster_is_being_deleted_and_the_next_cluster_gets_one",
    ),
    Mutant(
        "machines-pod-by-name",
        "a Machine stays because another pod has the name of the one that it was made for",
        FAMILY + "ondemand.demand",
        "pod_state",
        "pod is None or pod.metadata.uid != uid or pod.get('status', 'phase', default='') in _ENDED",
        "pod is None or pod.get('status', 'phase', default='') in _ENDED",
        test=ON_DEMAND + "test_a_pod_that_replaces_another_under_its_name_waits_until_the_old_objects_are_gone",
    ),
    Mutant(
        "machines-pod-of-other-namespace",
        "a pod gets no instance while one of another namespace has its name",
        FAMILY + "ondemand.decide",
        "_free_name",
        "holder is not None and holder.path == pod.path",
        "holder is not None",
        test=ON_DEMAND + "test_pods_of_one_name_in_two_namespaces_get_an_instance_each",
    ),
    Mutant(
        "machines-pod-cached-for-deletion",
        "a Machine is deleted because the cache does not show its pod",
        FAMILY + "ondemand.observe",
        "PodStates._read",
        "pod_state(await ctx.live(POD).find(pod.namespace, pod.name), pod.uid)",
        "PodState.ENDED if cached is None else pod_state(await ctx.live(POD).find(pod.namespace, pod.name), pod.uid)",
        test=ON_DEMAND + "test_a_pod_that_the_cache_does_not_show_yet_keeps_its_machine",
    ),
    Mutant(
        "machines-pod-cached-for-creation",
        "a pod gets a second Machine because the caches do not show the first one",
        FAMILY + "ondemand.reconciler",
        "OnDemandReconciler.reconcile",
        "any(step.rests_on_absence for step in steps)",
        "False",
        test=ON_DEMAND + "test_machines_that_the_cache_does_not_show_yet_are_not_made_again",
    ),
)
