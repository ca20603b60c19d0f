"""Planted faults of Operations and of pull mode, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["OPERATIONS"]

ENGINES: Final = "konverge.reconcilers.apps.operations.engines."
CLUSTERS: Final = "konverge.reconcilers.clusters."
HELM: Final = "tests/scenarios/operations/test_helm.py::"
SILENT: Final = "tests/scenarios/operations/test_silent_engines.py::"
JOBS: Final = "tests/unit/clusters/test_pull_jobs.py::"
CONNECTION: Final = "tests/unit/clusters/test_pull_connection.py::"

RUNNING: Final = "konverge.reconcilers.apps.operations.running."
ROWS: Final = "tests/scenarios/operations/test_rows.py::"
RIGHTS: Final = "tests/scenarios/operations/test_rights.py::"
READ_RIGHTS: Final = "tests/scenarios/operations/test_read_rights.py::"

OPERATIONS: Final = (
    Mutant(
        "pull-full-journal-tries-nothing",
        "a good job waits until a bad one in a full journal is given up",
        CLUSTERS + "job_worker",
        "JobWorker._take",
        "self._room.fits_for_a_try(self._journal, entry)",
        "False",
        test=JOBS + "test_journal_full_of_bad_jobs_delays_no_good_job_and_loses_none",
    ),
    Mutant(
        "pull-younger-job-overtakes-without-a-place",
        "a job of an object takes a place before an older one of it that has none",
        CLUSTERS + "job_worker",
        "JobWorker._try",
        "held.add(_place_of(entry, self._gates))",
        "pass",
        test=JOBS + "test_jobs_of_an_object_keep_order_while_the_first_lacks_room",
    ),
    Mutant(
        "pull-begun-deletion-is-put-back",
        "a deletion that has begun is forgotten, and removes a successor of its object later",
        CLUSTERS + "job_worker",
        "JobWorker._try",
        "not stored.uid",
        "True",
        test=JOBS + "test_started_deletion_without_room_in_the_queue_spares_a_successor",
    ),
    Mutant(
        "pull-asks-for-the-same-jobs-again",
        "good jobs wait behind a response full of bad ones",
        CLUSTERS + "sweep",
        "Sweep.ends_with",
        "not full or not ids or not 0 < self._left < MOST_LEFT",
        "True",
        test=JOBS + "test_any_number_of_bad_jobs_keeps_no_good_one_waiting",
    ),
    Mutant(
        "pull-younger-job-overtakes-on-another-page",
        "a job of an object goes before an older one that an earlier response had",
        CLUSTERS + "job_worker",
        "JobWorker._turn_over",
        "self._sweep.behind.update(places[job_id] for job_id in unplaced)",
        "pass",
        test=JOBS + "test_jobs_of_an_object_keep_their_order_across_poll_pages",
    ),
    Mutant(
        "operations-believes-an-old-list",
        "a process that an old list shows an Operation between its turn and its object makes a second object",
        RUNNING + "observe",
        "_check_still_claimed",
        "not same",
        "False",
        test=ROWS + "test_a_process_that_begins_with_an_old_list_makes_no_second_object",
    ),
    Mutant(
        "operations-holds-a-turn-without-a-right",
        "an Operation whose object the operator may not make keeps its turn",
        RUNNING + "act",
        "_without_right",
        "plan is None or not right_is_missing_for_long(memory.refusals.since(uid, now), now)",
        "True",
        test=RIGHTS + "test_operation_without_create_rights_releases_its_lease_and_creates_one_object_later",
    ),
    Mutant(
        "operations-gives-an-unseen-turn-back",
        "an Operation whose object may have been made and removed is made a second time",
        RUNNING + "act",
        "_without_sight",
        "isinstance(rendered, Rendered) and may_be_removed(rendered, running.stop.started, None, ctx.now())",
        "False",
        test=READ_RIGHTS + "test_object_that_may_have_existed_is_not_created_a_second_time",
    ),
    Mutant(
        "operations-believes-a-stale-cache",
        "an Operation whose engine may not be watched any more waits for an event that never comes",
        "konverge.reconcilers.apps.operations.engine_request",
        "denied",
        "problem.cause != RestartCause.FORBIDDEN",
        "True",
        test=READ_RIGHTS + "test_a_job_that_ends_is_seen_without_the_right_to_watch_jobs",
    ),
    Mutant(
        "operations-takes-turns-for-nothing",
        "an Operation without the right to its object takes turn after turn",
        "konverge.reconcilers.apps.operations.waiting.act",
        "claim_target",
        "await _try_out(operation, rendered, instance, engines.cluster_id, ctx)",
        "",
        test=RIGHTS + "test_operation_without_create_rights_releases_its_lease_and_creates_one_object_later",
    ),
    Mutant(
        "operations-trusts-an-old-entry-of-its-own",
        "an Operation starts by an entry of the Lease that another process drops as unconfirmed",
        "konverge.reconcilers.apps.operations.waiting.lease",
        "take_turn",
        "_unconfirmed(from_rfc3339(holder.since), ctx.now()) > UNCONFIRMED - _FRESH",
        "True",
        test=RIGHTS + "test_old_own_lease_entry_is_written_again_before_the_start",
    ),
    Mutant(
        "operations-helm-waits-for-ever",
        "an Upgrade that has to stop waits for a release that never settles",
        ENGINES + "helm",
        "HelmEngine.observe",
        "not asked_to_cancel or seen.state.final",
        "True",
        test=HELM + "test_upgrade_that_never_settles_ends_and_the_waiting_restore_starts",
    ),
    Mutant(
        "operations-helm-leaves-an-action",
        "an Upgrade that has to stop ends while Helm acts, and the next Operation starts beside it",
        ENGINES + "helm",
        "HelmEngine.observe",
        "left is None",
        "True",
        test=HELM + "test_cancelled_upgrade_waits_for_the_helm_action_and_reports_its_end",
    ),
    Mutant(
        "operations-waits-for-a-dead-engine",
        "an Operation that has to stop waits for a controller that is gone",
        ENGINES + "silence",
        "_was_sent",
        "deleting or isinstance(cancel, WaitForEnd)",
        "False",
        test=SILENT + "test_an_operation_whose_controller_is_gone_ends_and_the_next_one_starts",
    ),
    Mutant(
        "operations-leaves-an-engine-that-was-not-stopped",
        "a cancel ends an Operation whose object was silent before its controller could stop it",
        ENGINES + "silence",
        "Silence.judge",
        "not _was_sent(cancel, child)",
        "False",
        test=SILENT + "test_a_workflow_whose_controller_is_alive_is_shut_down_and_stays",
    ),
    Mutant(
        "operations-ends-by-the-clock-of-another-process",
        "a process whose clock is ahead ends a Backup whose server lives",
        ENGINES + "silence",
        "Silence.judge",
        "max(self.left, self.left_to_end)",
        "self.left",
        test=SILENT + "test_process_with_a_fast_clock_waits_for_a_live_server",
    ),
    Mutant(
        "operations-leaves-a-server-that-lives",
        "a cancel ends a Backup whose server validates its location",
        RUNNING + "observe",
        "observe_last_write",
        "(metadata.resource_version, *related)",
        "(metadata.resource_version,)",
        test=SILENT + "test_process_with_a_fast_clock_waits_for_a_live_server",
    ),
    Mutant(
        "operations-calls-a-server-silent-after-a-restart",
        "a restarted process calls a server silent that validates its location",
        ENGINES + "velero.engine",
        "_validations",
        "last.get('lastValidationTime')",
        "False",
        test=SILENT + "test_a_restarted_process_knows_a_server_that_lives_by_its_validations",
    ),
    Mutant(
        "operations-helm-values-undone",
        "an Upgrade whose values another writer took back has succeeded",
        ENGINES + "helm",
        "_undone",
        "patch and not _keeps(instance.get('spec', 'values', 'inline'), patch)",
        "False",
        test=HELM + "test_values_that_another_writer_undoes_end_the_upgrade",
    ),
    Mutant(
        "operations-backup-of-a-former-namespace",
        "a namespace that was made again restores the Backup of the former tenant",
        ENGINES + "velero.render",
        "_of_another_life",
        "recorded == uid",
        "recorded",
        test="tests/scenarios/operations/test_engines.py::"
        "test_x6_recreated_namespace_does_not_restore_the_former_tenants_backup",
    ),
    Mutant(
        "pull-full-journal-keeps-good-jobs-out",
        "jobs that are never carried out keep the others out of a full journal for good",
        CLUSTERS + "job_worker",
        "JobWorker._makes_room",
        "entry is None",
        "True",
        test=JOBS + "test_bad_jobs_that_waited_long_yield_their_places_to_other_bad_jobs",
    ),
    Mutant(
        "pull-gives-up-without-a-note",
        "a job that is given up is reported before its result is stored, so a crash carries it out after all",
        CLUSTERS + "job_worker",
        "JobWorker._makes_room",
        "await self._write(self._journal.done(entry.job_id, self._given_up(entry)))",
        "self._journal = self._journal.done(entry.job_id, self._given_up(entry))",
        test=JOBS + "test_job_that_was_given_up_is_not_executed_after_redelivery",
    ),
    Mutant(
        "pull-job-overtakes-its-object",
        "a job overtakes an earlier one of its object that is tried again, so the older state is the last",
        CLUSTERS + "job_worker",
        "JobWorker._outcome",
        "place in held or (waits and not again)",
        "waits and not again",
        test=JOBS + "test_jobs_of_an_object_keep_their_order_during_retries_of_the_first",
    ),
    Mutant(
        "pull-poll-outlasts-a-retry",
        "a poll waits its whole time although a job is to be tried again",
        CLUSTERS + "attempts",
        "Attempts.next_due",
        "return min((most, *(max(int(retry.due - now), 0) for retry in self._retries.values())))",
        "return most",
        test=JOBS + "test_job_waiting_for_a_retry_survives_a_crash_until_dropped_upstream",
    ),
    Mutant(
        "pull-rotation-stops-the-agent",
        "a rotation that the control plane refuses ends the session",
        CLUSTERS + "plane_session",
        "PlaneSession._try_rotation",
        "self._report.rotation(f'{error}; it is tried again')",
        "raise Stopped(Authenticated.ROTATION_FAILED, str(error)) from None",
        test=CONNECTION + "test_refused_rotation_keeps_credential_and_jobs_and_is_retried",
    ),
    Mutant(
        "pull-rotation-not-repeated",
        "a rotation that was refused is not asked for again",
        CLUSTERS + "plane_session",
        "PlaneSession.repeat_rotation",
        "self._report.state.rotation and wanted()",
        "False",
        test=CONNECTION + "test_refused_rotation_keeps_credential_and_jobs_and_is_retried",
    ),
)
