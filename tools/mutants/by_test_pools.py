"""Planted faults of the family of Nextcloud pools, each with the test that finds it. Data alone."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["POOLS"]

FAMILY: Final = "konverge.reconcilers.pools."
ROWS: Final = "tests/scenarios/pools/test_rows.py::"
LAB: Final = "tests/scenarios/pools/test_lab.py::"
WHOLE: Final = "tests/scenarios/pools/test_family_lab.py::"

POOLS: Final = (
    Mutant(
        "pools-lock-of-any-version",
        "a claim takes an instance that changed since it was read",
        FAMILY + "claims.render",
        "lock_patch",
        "instance.resource_version",
        "''",
        test=ROWS + "test_an_instance_that_fails_while_it_is_taken_is_left_for_the_next_one",
    ),
    Mutant(
        "pools-conflict-takes-another",
        "a claim whose lock another process of the same claim was faster with takes a second instance",
        FAMILY + "claims.reconciler",
        "NextcloudReconciler._take_from_pool",
        "for candidate in free:\n"
        "    before = await self._taken_before(nextcloud, ctx)\n"
        "    if before is not None:\n"
        "        return before\n"
        "    chosen = instances.find(candidate.namespace, candidate.name)\n"
        "    if chosen is None or chosen.metadata.resource_version != candidate.resource_version:\n"
        "        continue\n"
        "    try:\n"
        "        return await self._lock(nextcloud, chosen, ctx)\n"
        "    except (Conflict, NotFound):\n"
        "        self._metrics.conflicts.inc()",
        "before = await self._taken_before(nextcloud, ctx)\n"
        "if before is not None:\n"
        "    return before\n"
        "for candidate in free:\n"
        "    chosen = instances.find(candidate.namespace, candidate.name)\n"
        "    if chosen is None or chosen.metadata.resource_version != candidate.resource_version:\n"
        "        continue\n"
        "    try:\n"
        "        return await self._lock(nextcloud, chosen, ctx)\n"
        "    except (Conflict, NotFound):\n"
        "        self._metrics.conflicts.inc()",
        test=ROWS + "test_two_processes_that_take_an_instance_for_the_same_claim_take_one",
    ),
    Mutant(
        "pools-late-lock-moves-tenant",
        "a lock that arrives late moves a tenant to another instance",
        FAMILY + "claims.reconciler",
        "NextcloudReconciler._own_instance",
        "(one.namespace, one.name) == where",
        "True",
        test=ROWS + "test_a_claim_that_got_a_second_instance_keeps_its_first_and_takes_both_along",
    ),
    Mutant(
        "pools-resume-forgotten",
        "after a crash behind the lock a claim takes a second instance",
        FAMILY + "claims.reconciler",
        "_claimed_by",
        "one.get('spec', 'claimRef', 'uid', default='') == uid",
        "False",
        test=ROWS + "test_p4_after_a_crash_behind_the_lock_the_same_instance_is_resumed",
    ),
    Mutant(
        "pools-trim-of-any-version",
        "a pool deletes an instance that was claimed since it was listed",
        FAMILY + "pool.reconciler",
        "NextcloudPoolReconciler._delete",
        "member.version",
        "None",
        test=LAB + "test_two_claims_race_the_end_of_the_instances_that_are_too_old",
    ),
    Mutant(
        "pools-cap-forgotten",
        "a pool creates as many instances at once as it lacks",
        FAMILY + "pool.decide",
        "decide_pool",
        "max(0, min(missing, left))",
        "max(0, missing)",
        test=ROWS + "test_p1_a_pool_of_25_is_filled_in_three_windows_of_at_most_ten",
    ),
    Mutant(
        "pools-roll-of-all",
        "a changed profile replaces all unassigned instances at once",
        FAMILY + "pool.decide",
        "_replaced",
        "unwanted[:max(0, budget - unavailable)]",
        "unwanted",
        test=LAB + "test_a_profile_rolls_with_never_more_than_a_quarter_of_the_pool_missing",
    ),
    Mutant(
        "pools-line-jumped",
        "a younger claim takes the instance whose turn is an older one's",
        FAMILY + "claims.turns",
        "ahead_of",
        "(one.created, one.uid) < (me.created, me.uid)",
        "False",
        test=ROWS + "test_a_younger_claim_leaves_the_instance_to_an_older_one_that_is_slow_to_take_it",
    ),
    Mutant(
        "pools-namespace-of-users",
        "an instance deletes its namespace although no label says that it owns it",
        FAMILY + "instances.teardown",
        "owns_namespace",
        "namespace.metadata.label(PoolsLabel.INSTANCE) == instance.name",
        "True",
        test="tests/scenarios/pools/test_instances_lab.py::"
        "test_an_instance_is_made_while_s3_and_database_are_late_and_deleted_while_s3_is_down",
    ),
    Mutant(
        "pools-cluster-of-users",
        "an instance deletes a Cluster that was not made for it",
        FAMILY + "instances.teardown",
        "is_ours",
        "found.metadata.label(Label.OWNER_UID) == instance.uid",
        "True",
        test="tests/scenarios/pools/test_instances.py::test_an_object_of_another_owner_is_neither_used_nor_deleted",
    ),
    Mutant(
        "pools-retain-forgotten",
        "with Retain database, bucket and Secrets go with the Nextcloud",
        FAMILY + "instances.teardown",
        "keeps_data",
        "instance.spec.reclaim_policy == 'Retain' and not is_spare(instance)",
        "False",
        test=WHOLE
        + "test_p14_with_retain_all_that_makes_the_data_readable_stays_and_the_next_nextcloud_gets_another_instance",
    ),
    Mutant(
        "pools-orphan-of-a-namesake",
        "an instance whose Nextcloud another one of its name replaced is never reclaimed",
        FAMILY + "claims.orphans",
        "instances_of_claim",
        "stored is not None and stored.uid == nextcloud.metadata.uid",
        "stored is not None",
        test="tests/scenarios/pools/test_orphans.py::"
        "test_a_nextcloud_of_the_same_name_gets_an_instance_of_its_own_and_that_of_the_former_is_reclaimed",
    ),
    Mutant(
        "pools-database-not-waited-for",
        "an instance loses its Secrets while its database is still being deleted",
        FAMILY + "instances.dismantle",
        "Dismantler._database",
        "return self._waiting(TeardownReason.DATABASE, f'Cluster {found.name} is being deleted')",
        "return None",
        test="tests/scenarios/pools/test_instances.py::test_each_step_of_a_deletion_waits_until_the_one_before_has_ended",
    ),
)
