"""Planted faults of sharding and of workspaces, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["SHARDING"]

ROOM: Final = "konverge.runtime.sharding."
MEMBERS: Final = "tests/unit/runtime/sharding/test_members.py::"
MODEL: Final = "tests/unit/runtime/sharding/test_model.py::"
SCENARIOS: Final = "tests/scenarios/sharding/"
RESTARTS: Final = SCENARIOS + "test_restarts.py::"
ROWS: Final = SCENARIOS + "test_scenarios.py::"
LATE: Final = SCENARIOS + "test_late_writes.py::"

SHARDING: Final = (
    Mutant(
        "sharding-takes-what-has-an-owner",
        "a member takes an object whose owner is alive, if it should own it",
        ROOM + "decision",
        "decide",
        "not (own or _free(view.stamp, state_of)) or not _free(view.former, state_of)",
        "not (own or _free(view.stamp, state_of) or view.desired == view.me) or not _free(view.former, state_of)",
        test=MODEL + "test_no_two_members_reconcile_an_object_at_once_and_epochs_increase",
    ),
    Mutant(
        "sharding-gives-back-while-it-runs",
        "the stamp of an object that is to move is cleared while a reconcile of it runs",
        ROOM + "decision",
        "_of_held",
        "ShardAction.DRAIN if view.running else ShardAction.CLEAR",
        "ShardAction.CLEAR",
        test=MODEL + "test_no_two_members_reconcile_an_object_at_once_and_epochs_increase",
    ),
    Mutant(
        "sharding-epoch-of-the-stamp",
        "the epoch is one more than that of the stamp, which a person may have written",
        ROOM + "stamp",
        "next_epoch",
        "max(int(version), after)",
        "after",
        test=SCENARIOS
        + "test_scenarios.py::test_s13_epochs_increase_although_a_low_one_was_forged_while_the_owner_was_dead",
    ),
    Mutant(
        "sharding-dead-without-a-look",
        "a late event makes a member dead that no look has found unchanged",
        ROOM + "members",
        "Membership.observe",
        "member.marked = lease.joined",
        "member.marked = lease.joined\nmember.looked_at = now",
        test=MEMBERS + "test_a_late_event_that_shows_no_renewal_makes_no_member_dead",
    ),
    Mutant(
        "sharding-newcomer-counts-at-once",
        "a newcomer is counted although the last crash of its replica still keeps objects waiting",
        ROOM + "members",
        "Membership.has_judged_all",
        "member.renewed or member.state.gone or not member.lease.joined",
        "True",
        test=RESTARTS + "test_no_object_waits_for_longer_than_35_seconds_while_one_replica_crashes_again_and_again",
    ),
    Mutant(
        "sharding-newcomer-judges-as-others",
        "a newcomer counts a Lease that never changes as live for as long as members that have seen it change",
        ROOM + "members",
        "Membership._dead_after",
        "member.renewed or not member.lease.stops_after",
        "True",
        test=RESTARTS + "test_objects_of_replicas_that_are_all_killed_and_restarted_wait_for_35_seconds_at_most",
    ),
    Mutant(
        "sharding-dead-before-its-fence-closes",
        "a Lease that was never seen to change counts as dead after the time in which its holder stops, without a margin",
        ROOM + "members",
        "Membership._dead_after",
        "2 * max(member.lease.stops_after, self._settings.renew_seconds)",
        "max(member.lease.stops_after, self._settings.renew_seconds)",
        test=MEMBERS
        + "test_a_lease_that_was_never_seen_to_change_is_dead_after_twice_the_time_in_which_its_holder_stops",
    ),
    Mutant(
        "sharding-old-lease-is-a-renewal",
        "a stale list shows an older Lease, and a newcomer takes the change for a renewal",
        ROOM + "members",
        "Membership.observe",
        "_is_older(lease, member.lease)",
        "False",
        test=MEMBERS + "test_a_lease_that_is_older_than_the_last_one_does_not_count_as_a_renewal",
    ),
    Mutant(
        "sharding-death-is-not-reported",
        "the Lease of a dead member is not released, so each newcomer has to judge it again",
        ROOM + "ring",
        "Ring._release_dead",
        "await self._write(name, {'metadata': {'resourceVersion': lease.version}, 'spec': record.to_spec()})",
        "pass",
        test=RESTARTS + "test_a_dead_member_is_reported_by_its_released_lease_which_is_deleted_after_a_minute",
    ),
    Mutant(
        "sharding-newcomer-is-not-greeted",
        "members renew at their own time alone, so a newcomer is counted seconds later and objects move twice",
        ROOM + "ring",
        "Ring._greet",
        "self._term.renew_soon()",
        "pass",
        test=ROWS + "test_s10_two_that_join_and_one_that_leaves_within_three_seconds_move_each_key_at_most_once",
    ),
    Mutant(
        "sharding-joins-put-off-for-ever",
        "members that join again and again put off the count of all",
        ROOM + "members",
        "Membership._count_soon",
        "min(now + join, self._joins_by)",
        "now + join",
        test=MEMBERS + "test_members_that_join_again_and_again_put_off_the_count_for_five_join_times_at_most",
    ),
    Mutant(
        "sharding-label-of-the-lease-lost",
        "renewals do not write the label of the ring, without which the others take the member for dead",
        "konverge.runtime.election.elector",
        "LeaseElection._write",
        'metadata["labels"] = self._labels',
        "pass",
        test=SCENARIOS + "test_signs.py::test_a_lease_that_lost_its_label_has_it_back_with_the_next_renewal",
    ),
    Mutant(
        "sharding-moves-taken-for-edits",
        "a replica that has lost its Lease takes the stamps of the next owners for edits by hand",
        ROOM + "ownership",
        "Ownership.observe",
        "self.ring.holds",
        "True",
        test=SCENARIOS + "test_signs.py::"
        "test_a_replica_that_was_cut_off_tells_of_the_loss_when_it_is_back_and_takes_moved_objects_for_no_fault",
    ),
    Mutant(
        "sharding-label-moves-before-the-stamp",
        "the coordinator labels an object for its next replica while its owner is alive",
        ROOM + "assignment",
        "assign",
        "state.gone or not home",
        "state.gone or not home or home != target",
        test="tests/unit/runtime/sharding/test_assignment.py::"
        "test_an_object_is_assigned_by_its_owner_and_by_the_member_that_should_own_it",
    ),
    Mutant(
        "sharding-children-of-others",
        "the event of a child enqueues its owner on a replica that does not have it",
        "konverge.runtime.controller.event_handlers",
        "EventHandlers._enqueue_related",
        "gate is None or store.get(key.namespace, key.name) is not None",
        "True",
        test=SCENARIOS + "test_coordinator.py::test_events_of_children_of_other_replicas_enqueue_nothing",
    ),
    Mutant(
        "workspaces-kcp-not-fenced",
        "a replica that was paused writes to kcp when it wakes",
        "konverge.reconcilers.workspaces.kcp",
        "KcpWorkspaces._open",
        "self._fence is None",
        "True",
        test=SCENARIOS + "test_workspaces.py::"
        "test_a_replica_that_was_paused_between_a_read_and_a_write_of_kcp_writes_nothing_to_it_on_waking",
    ),
    Mutant(
        "workspaces-late-delete",
        "a deletion of the owner before that was on its way deletes the Workspace of the next one",
        "konverge.reconcilers.workspaces.kcp",
        "KcpWorkspaces.delete",
        "client.delete(WORKSPACE, expect=workspace)",
        "client.delete(WORKSPACE, claim.workspace, uid=workspace.metadata.uid)",
        test="tests/scenarios/workspaces/test_kcp.py::test_a_write_of_the_owner_before_that_was_on_its_way_is_refused_by_kcp",
    ),
    # --- the ring ---
    Mutant(
        "sharding-scores-without-the-member",
        "the hash gives every key to one member",
        ROOM + "hashing",
        "Rendezvous.owner_of",
        "score.update(encoded)",
        "pass",
        test="tests/unit/runtime/sharding/test_hashing.py::test_each_member_has_its_share_within_five_percent",
    ),
    Mutant(
        "sharding-dead-when-expired",
        "a member whose Lease has just expired is taken for dead",
        ROOM + "members",
        "Membership._judge",
        "age >= self._dead_after(member)",
        "age >= self._duration(member)",
        test=MEMBERS + "test_a_member_expires_after_one_duration_keeps_its_place_and_is_dead_after_two",
    ),
    Mutant(
        "sharding-duration-of-the-record-alone",
        "a person who shortens the duration in a Lease makes its member dead before its fence has closed",
        ROOM + "members",
        "Membership._duration",
        "max(member.lease.record.duration, self._settings.lease_seconds)",
        "member.lease.record.duration",
        test=MEMBERS + "test_a_duration_that_was_shortened_by_hand_makes_a_member_dead_no_sooner",
    ),
    Mutant(
        "sharding-dead-comes-back",
        "a member that was dead is alive again once its Lease changes",
        ROOM + "members",
        "Membership._judge",
        "if member.state.gone:\n    return",
        "pass",
        test=MEMBERS + "test_a_dead_member_stays_dead_whatever_its_lease_says_later",
    ),
    Mutant(
        "sharding-one-name-for-all-terms",
        "a replica that has lost its Lease joins again under the name that others take for dead",
        ROOM + "ring",
        "Ring.acquire",
        "member_name(self.name, self._host, self._random.getrandbits(40))",
        "f'{self.name}-{self._host}-0000000000'",
        test=ROWS + "test_s7_a_replica_that_was_paused_for_a_minute_writes_nothing_when_it_wakes_and_owns_nothing",
    ),
    Mutant(
        "sharding-draining-not-said",
        "a replica that stops does not mark its Lease, so that others still count it",
        ROOM + "ring",
        "Ring.drain",
        "await self._client.patch(LEASE, self.member, self.namespace, patch=mark, style='merge')",
        "pass",
        test=ROWS + "test_s5_objects_that_are_new_while_a_replica_waits_for_its_last_reconcile_go_to_others_at_once",
    ),
    # --- the fence ---
    Mutant(
        "sharding-open-between-terms",
        "a replica writes between two terms as a member",
        ROOM + "ring",
        "_MemberFence.check",
        "raise NotLeading('not sent: this replica is not a member of its ring yet')",
        "return",
        test=ROWS + "test_s7_a_replica_that_was_paused_for_a_minute_writes_nothing_when_it_wakes_and_owns_nothing",
    ),
    Mutant(
        "sharding-writes-not-fenced",
        "a shared controller writes although its replica has lost its Lease",
        ROOM + "part",
        "Sharding.open",
        "replace(core.services, client=client, events=events, term=term, fence=ring.fence, gates=partial(_gate, ownership, trimmed_kinds(ring, core)))",
        "replace(core.services, client=core.client, events=events, term=term, fence=ring.fence, gates=partial(_gate, ownership, trimmed_kinds(ring, core)))",
        test=LATE + "test_s8_a_reconcile_that_resists_its_end_writes_nothing_after_its_replica_has_lost_its_lease",
    ),
    # --- ownership and hand-over ---
    Mutant(
        "sharding-claims-blindly",
        "a stamp is written without the version that was seen, so that the last of several wins",
        ROOM + "ownership",
        "Ownership._write",
        "{'uid': metadata.uid, 'resourceVersion': metadata.resource_version, 'annotations': {self.annotation: str(stamp)}}",
        "{'uid': metadata.uid, 'annotations': {self.annotation: str(stamp)}}",
        test=LATE + "test_s9_a_claim_that_is_on_its_way_while_another_replica_takes_the_object_is_refused",
    ),
    Mutant(
        "sharding-holds-what-it-may-have-cleared",
        "a stamp counts as held although a clear of it was sent, whose response was lost",
        ROOM + "ownership",
        "Ownership._write",
        "if not claims:\n    entry.held = 0",
        "pass",
        test=LATE
        + "test_s9_an_owner_whose_clear_lost_its_response_reconciles_nothing_of_what_its_old_cache_still_shows_as_its_own",
    ),
    Mutant(
        "sharding-removed-stamp-forgotten",
        "a stamp that was removed by hand makes an object free although its owner reconciles it",
        ROOM + "decision",
        "former_after",
        "if before is None or new is None:\n    return before",
        "if before is None or new is None:\n    return None",
        test=LATE
        + "test_s13_a_stamp_that_is_removed_while_the_object_waits_to_be_handed_over_frees_it_for_no_other_replica",
    ),
    Mutant(
        "sharding-stamp-not-written-again",
        "an owner does not write a stamp again that was removed while its reconcile runs",
        ROOM + "ownership",
        "Ownership.observe",
        "self._spawn(self._stamp_again(key, new, entry, writer))",
        "pass",
        test=SCENARIOS
        + "test_scenarios.py::test_s13_a_stamp_that_was_removed_or_forged_costs_one_write_and_an_event_and_no_overlap",
    ),
    Mutant(
        "sharding-waits-for-an-event",
        "objects that a replica gains wait for their next event",
        ROOM + "gate",
        "ShardGate._follow_ring",
        "await self._host.enqueue_where(self._changes)",
        "pass",
        test=ROWS + "test_s4_the_objects_of_a_replica_that_died_are_reconciled_by_others_within_35_seconds",
    ),
    Mutant(
        "sharding-reads-before-it-caught-up",
        "the next owner reads caches that do not show the last writes of the owner before",
        ROOM + "gate",
        "ShardGate.admit",
        "self._caught_up.get(metadata.uid) != claim.epoch",
        "False",
        test=LATE + "test_s12_the_next_owner_reads_the_last_writes_of_the_owner_before_although_its_watch_is_behind",
    ),
    # --- the coordinator ---
    Mutant(
        "sharding-labels-blindly",
        "the coordinator writes labels without the version that it decided on",
        ROOM + "coordinator",
        "Coordinator._write",
        "metadata.resource_version",
        "None",
        test=LATE
        + "test_s12_a_label_that_the_coordinator_decided_on_before_the_object_changed_is_refused_and_decided_on_again",
    ),
    Mutant(
        "sharding-coordinator-forgets-the-owner",
        "the coordinator gives an object away whose stamp was removed by hand",
        ROOM + "coordinator",
        "Coordinator._note_former",
        "self._former[uid] = (former, self._now() + 2 * self._ring.settings.lease_seconds)",
        "pass",
        test=LATE
        + "test_s13_a_stamp_that_is_removed_while_the_object_waits_to_be_handed_over_frees_it_for_no_other_replica",
    ),
    Mutant(
        "sharding-coordinator-waits-for-events",
        "the objects of a replica that died get a new label with their next event alone",
        ROOM + "coordinator",
        "Coordinator._follow_ring",
        "self._queue.add((selection, Key('', selection.kind, namespace, name)), reason=Why.OWNER_CHANGED)",
        "pass",
        test=ROWS + "test_s4_the_objects_of_a_replica_that_died_are_reconciled_by_others_within_35_seconds",
    ),
    Mutant(
        "sharding-label-lost-is-deletion",
        "an object that leaves the cache while its reconcile runs is handed over when it comes back",
        ROOM + "ownership",
        "Ownership.observe",
        "old is not None and gone is not None and gone.running",
        "False",
        test=LATE
        + "test_s6_with_two_controllers_of_one_kind_an_object_that_loses_its_label_is_not_handed_over_before_both_have_ended",
    ),
    Mutant(
        "sharding-bodies-of-others",
        "a replica drops the body of an object that it owns",
        ROOM + "ownership",
        "Ownership.is_mine",
        "self._holds(metadata) or bool(self.ring.member and self.owns(metadata).owner == self.ring.member)",
        "self._holds(metadata)",
        test=SCENARIOS + "test_memory.py::"
        "test_the_body_of_an_object_is_kept_if_the_watch_shows_the_claim_before_its_response_comes",
    ),
    Mutant(
        "sharding-counts-of-others",
        "each replica counts the objects of all",
        "konverge.runtime.controller.object_counts",
        "ObjectCounts._take_shared",
        "cached is not None and (not cached.metadata_only) and own.is_mine(cached.metadata)",
        "cached is not None and (not cached.metadata_only)",
        test=SCENARIOS
        + "test_counts.py::test_each_object_is_counted_by_one_replica_as_objects_change_and_replicas_come_and_go",
    ),
    Mutant(
        "sharding-counts-of-the-lost",
        "a replica that has ceased to be a member goes on counting",
        "konverge.runtime.controller.object_counts",
        "_total",
        "counts._own is None or counts._own.counts()",
        "True",
        test=SCENARIOS
        + "test_counts.py::test_a_replica_that_is_cut_off_counts_nothing_and_those_that_take_its_objects_count_them",
    ),
    Mutant(
        "sharding-double-unseen",
        "two replicas of one name do not say so",
        ROOM + "ring",
        "Ring._note_double",
        "count == _RENEWALS_OF_A_DOUBLE",
        "False",
        test=SCENARIOS
        + "test_disturbed.py::test_two_replicas_of_one_name_are_named_by_each_in_the_log_and_in_an_event_on_its_lease",
    ),
)
