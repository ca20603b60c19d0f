"""Planted faults of the family of Nextcloud pools, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["POOLS"]

FAMILY: Final = "konverge.reconcilers.pools."
ROWS: Final = "tests/scenarios/pools/test_rows.py::"
MEMBERSHIP: Final = "tests/scenarios/pools/test_membership.py::"
ISOLATION: Final = "tests/scenarios/pools/test_isolation.py::"
LAB: Final = "tests/scenarios/pools/test_lab.py::"
WHOLE: Final = "tests/scenarios/pools/test_family_lab.py::"

POOLS: Final = (
    Mutant(
        "pools-lock-of-any-version",
        "a claim takes an instance that changed since it was read",
        FAMILY + "claims.lock",
        "take_instance",
        "ctx.patch(INSTANCE, expect=instance, patch=patch)",
        "ctx.patch(INSTANCE, instance.name, instance.namespace, patch=patch)",
        test=ROWS + "test_instance_that_fails_during_its_assignment_is_replaced_by_the_next",
    ),
    Mutant(
        "pools-member-by-label",
        "an instance with the label of a pool is a member of it",
        FAMILY + "records",
        "pool_of_member",
        "keepers[0].name if keepers else ''",
        "instance.label('k8s.bnerd.com/pool')",
        test=MEMBERSHIP + "test_forged_member_is_not_handed_out",
    ),
    Mutant(
        "pools-resume-forgotten",
        "after a crash behind the lock a claim takes a second instance",
        FAMILY + "claims.observe",
        "is_own",
        "instance.metadata.uid == nominated.uid",
        "False",
        test=ROWS + "test_p4_after_a_crash_behind_the_lock_the_same_instance_is_resumed",
    ),
    Mutant(
        "pools-claim-by-hand-stays",
        "an idle member with a claim that is not the operator's stays for ever",
        FAMILY + "orphans.observe",
        "_is_unconfirmed_member",
        "not pool_of_member(instance, ctx.cache(POOL))",
        "True",
        test=MEMBERSHIP + "test_idle_member_with_a_claim_by_hand_is_reclaimed_and_replaced",
    ),
    Mutant(
        "pools-marks-left",
        "a label that is edited by hand hides a member from its pool",
        FAMILY + "members",
        "corrected_marks",
        "instance.label(name) != value",
        "False",
        test=MEMBERSHIP + "test_marks_that_are_edited_on_an_idle_member_are_set_back",
    ),
    Mutant(
        "pools-creation-forgotten",
        "a process does not know the instances that the former process created before its end",
        FAMILY + "nonces",
        "has_nonce",
        "digest_of(nonce) == digest",
        "False",
        test=MEMBERSHIP + "test_process_that_dies_before_the_record_knows_its_instances_again",
    ),
    Mutant(
        "pools-open-to-all",
        "a pool serves namespaces that it does not allow",
        FAMILY + "records",
        "PoolMembership.admits",
        "self._decide(pool, namespace)",
        "True",
        test=ISOLATION + "test_pool_serves_only_allowed_namespaces",
    ),
    Mutant(
        "pools-trim-of-any-version",
        "a pool deletes an instance that was claimed since it was listed",
        FAMILY + "pool.act",
        "delete_instances",
        "ctx.delete(INSTANCE, expect=member.metadata)",
        "ctx.delete(INSTANCE, member.name, member.namespace, uid=member.uid)",
        test=LAB + "test_two_claims_race_the_end_of_the_instances_that_are_too_old",
    ),
    Mutant(
        "pools-cap-forgotten",
        "a pool creates as many instances at once as it lacks",
        FAMILY + "pool.decide",
        "decide_pool",
        "max(0, min(missing, left))",
        "max(0, missing)",
        test=ROWS + "test_p1_pool_of_25_fills_in_three_windows_of_ten",
    ),
    Mutant(
        "pools-roll-of-all",
        "a changed profile replaces all unassigned instances at once",
        FAMILY + "pool.decide",
        "_replaced",
        "order[:max(0, budget - unavailable)]",
        "order",
        test=LAB + "test_profile_rollout_never_leaves_more_than_a_quarter_of_instances_missing",
    ),
    Mutant(
        "pools-line-jumped",
        "a younger claim takes the instance whose turn is an older one's",
        FAMILY + "claims.pairing",
        "older_claims",
        "(other.created, other.uid) < (claim.created, claim.uid)",
        "False",
        test=ROWS + "test_younger_claim_leaves_the_instance_to_a_slow_older_claim",
    ),
    Mutant(
        "pools-namespace-of-users",
        "an instance deletes its namespace although no label says that it owns it",
        FAMILY + "instances.teardown.decide",
        "owns_namespace",
        "namespace.metadata.label(PoolsLabel.INSTANCE) == instance.name",
        "True",
        test="tests/scenarios/pools/test_instances_lab.py::"
        "test_instance_is_created_despite_late_s3_and_deleted_despite_s3_failure",
    ),
    Mutant(
        "pools-cluster-of-users",
        "an instance deletes a Cluster that was not made for it",
        FAMILY + "instances.ownership",
        "is_ours",
        "stored.metadata.label(Label.OWNER_UID) == instance.uid",
        "True",
        test="tests/scenarios/pools/test_instances.py::test_an_object_of_another_owner_is_neither_used_nor_deleted",
    ),
    Mutant(
        "pools-retain-forgotten",
        "with Retain database, bucket and Secrets go with the Nextcloud",
        FAMILY + "instances.teardown.decide",
        "keeps_data",
        "instance.spec.reclaim_policy == 'Retain' and not is_spare(instance)",
        "False",
        test=WHOLE + "test_p14_retain_keeps_readable_data_and_next_nextcloud_gets_another_instance",
    ),
    Mutant(
        "pools-orphan-of-a-namesake",
        "an instance whose Nextcloud another one of its name replaced is never reclaimed",
        FAMILY + "orphans.indexes",
        "instances_of_claim",
        "stored is not None and stored.uid == nextcloud.metadata.uid",
        "stored is not None",
        test="tests/scenarios/pools/test_orphans.py::"
        "test_recreated_nextcloud_gets_its_own_instance_and_the_former_is_reclaimed",
    ),
    Mutant(
        "pools-database-not-waited-for",
        "an instance loses its Secrets while its database is still being deleted",
        FAMILY + "instances.teardown.decide",
        "database_end",
        "waiting(TeardownReason.DATABASE, f'Cluster {cluster.name} is being deleted', retry)",
        "None",
        test="tests/scenarios/pools/test_instances.py::test_each_step_of_a_deletion_waits_until_the_one_before_has_ended",
    ),
)
