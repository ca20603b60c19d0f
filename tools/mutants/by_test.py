"""Planted faults that one named test finds and no plan of a story reaches: of sockets, of single decisions, of orders of events. Data alone."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["BY_TEST"]

FINALIZE: Final = "tests/unit/runtime/test_finalize.py::test_a_finalizer_stays_unless_finalize_returned_done"
REQUEUED: Final = (
    "tests/unit/workqueue/test_core.py::test_a_requeue_of_a_key_that_is_already_queued_runs_it_once_at_the_earlier_time"
)
GENERATION: Final = (
    "tests/unit/runtime/test_observed_generation.py::"
    "test_an_equal_status_is_written_again_once_for_each_new_generation_and_never_for_the_same"
)
INTENTS: Final = "tests/unit/test_fields.py::test_an_apply_is_skipped_only_where_nothing_would_change"
DURING: Final = "tests/unit/runtime/test_events_during_a_reconcile.py::"
STALE: Final = "tests/unit/runtime/test_stale_children.py::"
OWN_CHILDREN: Final = "tests/unit/runtime/test_own_child_writes.py::"
KIT: Final = "konverge.testing."
OF_LAB: Final = "tests/unit/lab/"

BY_TEST: Final = (
    Mutant(
        "finalizer-despite-the-deadline",
        "the finalizer is removed although finalize was cut off at its deadline",
        "konverge.runtime.reconcile.runner",
        "ReconcileRunner._after",
        "isinstance(ended, Done)",
        "isinstance(ended, Done | ReconcileTimeout)",
        test=FINALIZE,
    ),
    Mutant(
        "generation-taken-for-known",
        "a status that is equal but for observedGeneration is not written",
        "konverge.runtime.apply.applier",
        "Applier.apply_status",
        "{'status': cached.status()}",
        "{'status': {**cached.status(), 'observedGeneration': intent['status'].get('observedGeneration')}}",
        test=GENERATION,
    ),
    Mutant(
        "list-item-forgotten",
        "an item of a list map that the intent drops counts as unchanged and is never removed",
        "konverge.fields",
        "_list_unchanged",
        "if not isinstance(live, list) or len(intent) != len(fields) - ('.' in fields):\n    return False",
        "if not isinstance(live, list):\n    return False\n"
        "fields = {name: one for name, one in fields.items() if name[:2] != 'k:' or _item(intent, msgspec.json.decode(name[2:])) is not None}",
        test=INTENTS,
    ),
    Mutant(
        "set-member-forgotten",
        "a member of a set that the intent drops counts as unchanged and is never removed",
        "konverge.fields",
        "_list_unchanged",
        "if not isinstance(live, list) or len(intent) != len(fields) - ('.' in fields):\n    return False",
        "if not isinstance(live, list):\n    return False\n"
        "fields = {name: one for name, one in fields.items() if name[:2] != 'v:' or msgspec.json.decode(name[2:]) in intent}",
        test=INTENTS,
    ),
    Mutant(
        "reset-never-sent",
        "a create is sent again after a TCP reset, and may so be done twice",
        "konverge.client.transport",
        "HttpTransport.unreachable",
        "not isinstance(error, _NEVER_SENT)",
        "not isinstance(error, (*_NEVER_SENT, aiohttp.ClientOSError))",
        test="tests/unit/client/test_reset.py::test_a_create_whose_connection_is_reset_may_have_been_done_and_is_not_sent_again",
    ),
    Mutant(
        "older-event-keeps-the-version",
        "after an event with an older version the next watch leaves out what followed that version",
        "konverge.informers.machine",
        "_watch_items",
        "_replace(state, last_rv=given.version, received_event=True, advanced=True, failed_early=False, failing_since=None)",
        "_replace(state, last_rv=max(state.last_rv, given.version, key=lambda one: (len(one), one)), received_event=True, "
        "advanced=True, failed_early=False, failing_since=None)",
        test="tests/unit/informers/test_informer.py::test_a_version_that_goes_back_within_a_watch_loses_no_change",
    ),
    Mutant(
        "older-bookmark-keeps-the-version",
        "after a bookmark with an older version the next watch leaves out what followed that version",
        "konverge.informers.machine",
        "_watch_bookmark",
        "_replace(state, last_rv=given.version, received_event=True, advanced=True, failed_early=False, failing_since=None)",
        "_replace(state, last_rv=max(state.last_rv, given.version, key=lambda one: (len(one), one)), received_event=True, "
        "advanced=True, failed_early=False, failing_since=None)",
        test="tests/unit/informers/test_informer.py::test_a_version_that_goes_back_within_a_watch_loses_no_change",
    ),
    Mutant(
        "requeue-of-a-queued-key-lost",
        "a requeue is dropped if the key is already queued",
        "konverge.workqueue.core",
        "QueueCore.add_after",
        "self._add(key, now, now + max(0.0, delay), WaitReason.DELAY, reason, priority)",
        "if key not in self._waiting:\n    self._add(key, now, now + max(0.0, delay), WaitReason.DELAY, reason, priority)",
        test=REQUEUED,
    ),
    Mutant(
        "retry-of-a-queued-key-lost",
        "the retry of a failed key is dropped if the key is already queued",
        "konverge.workqueue.core",
        "QueueCore.add_rate_limited",
        "self._add(key, now, at, WaitReason.BACKOFF, reason, priority)",
        "if key not in self._waiting:\n    self._add(key, now, at, WaitReason.BACKOFF, reason, priority)",
        test=REQUEUED,
    ),
    Mutant(
        "requeue-overrides-the-event",
        "RequeueAfter puts off the reconcile that an event during the reconcile asked for",
        "konverge.runtime.controller.runner",
        "ControllerRunner._requeue",
        "queue.forget(key)\nqueue.add_after(key, decision.delay, reason=Why.REQUEUE_AFTER, priority=item.priority)",
        "queue.remove(key)\nqueue.add_after(key, decision.delay, reason=Why.REQUEUE_AFTER, priority=item.priority)",
        test="tests/unit/runtime/test_review_controller.py::test_requeue_after_is_kept_whether_or_not_an_event_comes_during_the_reconcile",
    ),
    Mutant(
        "index-by-name-alone",
        "an index does not distinguish objects of one name in different namespaces",
        "konverge.informers.index",
        "Index.put",
        "held != path",
        "held[1] != path[1]",
        test="tests/unit/informers/test_store.py::test_an_index_distinguishes_objects_of_one_name_in_different_namespaces",
    ),
    Mutant(
        "informer-of-every-namespace",
        "a controller of some namespaces finds objects of another one through a shared informer's index",
        "konverge.runtime.controller.watches",
        "ControllerWatches._watch",
        "replace(chosen, namespace=namespace)",
        "chosen",
        test="tests/unit/runtime/test_narrowed.py::"
        "test_a_controller_of_some_namespaces_finds_no_object_of_another_by_an_index_on_an_informer_that_it_shares",
    ),
    Mutant(
        "own-child-writes-kept",
        "with own_writes=False the event of an own apply of a child enqueues its owner all the same",
        "konverge.runtime.controller.event_handlers",
        "EventHandlers.on_owned",
        "not watch.own_writes",
        "watch.own_writes",
        test=OWN_CHILDREN + "test_the_events_of_own_applies_enqueue_nothing_if_the_kind_is_declared_so",
    ),
    Mutant(
        "foreign-child-writes-filtered",
        "with own_writes=False a change of a child by another writer enqueues nothing",
        "konverge.runtime.controller.event_handlers",
        "EventHandlers.on_owned",
        "self._own_versions.take(Key('', watch.kind, change.namespace, change.name), change.new.metadata.resource_version)",
        "(change.new.metadata.resource_version,)",
        test=OWN_CHILDREN + "test_a_change_of_another_writer_enqueues_the_owner",
    ),
    Mutant(
        "own-child-write-hides-others",
        "with own_writes=False a change of another writer that came between our reads and our apply enqueues nothing",
        "konverge.runtime.reconcile.children",
        "Children.own",
        "only_own_apply(cached.data(), stored.data, intent)",
        "True",
        test=STALE + "test_a_change_of_another_writer_that_is_merged_with_our_own_apply_enqueues_the_owner",
    ),
    Mutant(
        "late-child-event-filtered",
        "after the barrier gave up, the late event of an own child is filtered, though a reconcile ran without it",
        "konverge.runtime.consistency.barrier",
        "StalenessBarrier.stop_waiting",
        "self._own_versions.forget(Key('', write.kind, write.namespace, write.name))",
        "",
        test=STALE + "test_after_the_barrier_gave_up_the_late_event_of_an_own_child_enqueues_the_owner",
    ),
    Mutant(
        "unknown-write-of-the-gone-shown",
        "a write of unknown outcome whose object is gone counts as shown while the cache still has the object",
        "konverge.runtime.consistency.barrier",
        "StalenessBarrier._look_at_server",
        "return View.BEHIND if cached else View.SHOWN",
        "return View.SHOWN",
        test=STALE + "test_a_write_of_unknown_outcome_is_waited_for_until_the_cache_shows_what_the_server_has",
    ),
    Mutant(
        "index-keeps-values-of-before",
        "an object whose index function comes to raise is still found by its old values",
        "konverge.informers.index",
        "Index.put",
        "values = ()",
        "return",
        test="tests/unit/informers/test_store.py::"
        "test_an_object_whose_index_function_comes_to_raise_is_not_found_by_its_old_values",
    ),
    Mutant(
        "quota-edited-status-kept",
        "an edit of a claim's status by another writer triggers no reconcile",
        "konverge.reconcilers.quota.predicates",
        "claim_changed",
        "if status_was_edited(change, but=_PLACE_FIELDS):\n    return True",
        "",
        test="tests/unit/quota/test_wake_index.py::"
        "test_an_edit_of_a_status_that_the_family_wrote_triggers_a_reconcile_of_the_claim_and_its_own_write_does_not",
    ),
    Mutant(
        "apps-orphan-resumed",
        "a HelmRelease that is being deleted without an uninstall is resumed, and the workload of another instance is uninstalled",
        "konverge.reconcilers.apps.uninstall",
        "next_step",
        "release is not None and left.keeper",
        "release is not None and left.keeper and (not release.metadata.deleting)",
        test="tests/unit/apps/test_contention.py::"
        "test_a_release_that_was_deleted_without_an_uninstall_is_not_resumed_while_it_waits_for_flux",
    ),
    Mutant(
        "held-back-events-but-the-last-lost",
        "of several changes during a reconcile only the last is looked at, which a predicate may filter",
        "konverge.runtime.controller.event_handlers",
        "EventHandlers.release",
        "self.held_back.pop(key)",
        "self.held_back.pop(key)[-1:]",
        test=DURING + "test_a_change_during_a_reconcile_is_not_hidden_by_a_later_event_that_the_predicate_filters",
    ),
    Mutant(
        "own-status-hides-others",
        "an own status write hides a change of another writer that came before it",
        "konverge.runtime.reconcile.runner",
        "ReconcileRunner.write_status",
        "locked or only_status_changed(cached, answer.metadata, answer.body)",
        "True",
        test=DURING
        + "test_a_change_between_the_read_and_an_own_patch_is_not_hidden_by_the_own_status_write_that_follows",
    ),
    Mutant(
        "defect-ends-the-key",
        "a failure of the runtime itself ends the work on a key for ever",
        "konverge.runtime.controller.runner",
        "ControllerRunner._worker",
        "self.queue.add_rate_limited(item.key, reason=Why.RETRY, priority=item.priority)",
        "",
        test=DURING + "test_a_failure_of_the_runtime_itself_is_counted_and_the_key_retried",
    ),
    Mutant(
        "held-like-the-predecessor",
        "an apply is held back on an object because it was refused on another one of the same name",
        "konverge.runtime.apply.changes",
        "held_for",
        "cached.metadata.uid != refusal.uid or digest(named_by(intent, cached.data())) != refusal.values",
        "digest(named_by(intent, cached.data())) != refusal.values",
        test="tests/unit/runtime/test_applier.py::test_a_held_apply_is_tried_at_once_on_a_successor_of_the_same_name",
    ),
    Mutant(
        "apply-without-uid",
        "an apply of a child reaches another object of its name that the cache does not show yet",
        "konverge.runtime.reconcile.children",
        "Children.own",
        "metadata['uid'] = existing.uid",
        "",
        test=STALE + "test_an_apply_does_not_reach_the_successor_of_a_child_that_the_cache_still_shows",
    ),
    Mutant(
        "lab-late-faults-cut-off",
        "a run counts as converged while the process is down for a fault at a write after the end of the scenario",
        KIT + "lab.runs",
        "_await_convergence",
        "await injector.end()",
        "pass",
        test=OF_LAB + "test_runs.py::test_a_fault_at_a_write_after_the_end_of_the_scenario_is_waited_for_as_any_other",
    ),
    Mutant(
        "lab-late-faults-cut-off-by-the-clock",
        "a run whose clock ends does not wait for a fault at a write after the end of the scenario",
        KIT + "lab.runs",
        "_await_the_clock",
        "await injector.end()",
        "pass",
        test=OF_LAB + "test_runs.py::test_a_fault_at_a_write_after_the_end_of_the_scenario_is_waited_for_as_any_other",
    ),
    Mutant(
        "lab-skips-nothing-in-silence",
        "a pattern of skipped plans that matches none is no failure",
        KIT + "lab.planning",
        "_unmatched",
        "pattern.startswith('random')",
        "True",
        test=OF_LAB + "test_explore.py::test_a_pattern_of_skipped_plans_that_matches_none_fails_the_exploration",
    ),
    Mutant(
        "lab-absent-crds-waited-for",
        "a kind whose CRD is not installed ends in a timeout and not in an error at the start",
        KIT + "lab.lab",
        "Lab._define",
        "if missing:\n    raise UsageError(missing_words(missing))",
        "",
        test=OF_LAB
        + "test_definitions.py::test_kinds_that_no_server_serves_fail_the_test_at_the_start_with_their_names",
    ),
    Mutant(
        "lab-crds-of-primaries-alone",
        "the CRD of a model that a controller owns and does not reconcile is not installed",
        KIT + "lab.definitions",
        "_needs",
        "yield from ((one.kind, f'owned by controller {spec.name!r}') for one in spec.owned if not one.optional)",
        "",
        test=OF_LAB + "test_definitions.py::test_the_crds_of_models_that_are_owned_alone_are_installed",
    ),
    Mutant(
        "loop-waits-for-threads-for-ever",
        "a run whose thread never returns hangs",
        KIT + "loop",
        "VirtualTimeLoop._waited",
        "used - before < _BUSY * waited",
        "False",
        test="tests/unit/testing/test_loop.py::test_a_thread_that_waits_for_what_never_comes_ends_the_run_with_its_name",
    ),
    Mutant(
        "loop-cuts-off-computing-threads",
        "a run whose thread computes for long is cut off",
        KIT + "loop",
        "VirtualTimeLoop._waited",
        "used - before < _BUSY * waited",
        "True",
        test="tests/unit/testing/test_loop.py::test_a_thread_that_computes_is_waited_for",
    ),
    Mutant(
        "loop-runs-for-ever",
        "a run that goes on without an end is not cut off",
        KIT + "loop",
        "VirtualTimeLoop._check_end",
        "cpu_time() > self._ends[0]",
        "False",
        test=OF_LAB + "test_runs.py::test_a_run_that_goes_on_without_an_end_is_cut_off_when_it_has_used_its_cpu_time",
    ),
    Mutant(
        "lab-nothing-ran",
        "a scenario under which no plan ran passes",
        KIT + "lab.explore",
        "Report.passed",
        "self.ran > 0",
        "True",
        test=OF_LAB + "test_explore.py::test_an_exploration_that_ran_no_plan_does_not_pass",
    ),
    Mutant(
        "lab-left-in-ci",
        "plans that were left for want of time are no failure in CI",
        KIT + "lab.explore",
        "Report.passed",
        "self.strict and self.left",
        "False",
        test=OF_LAB + "test_explore.py::test_plans_that_are_left_for_want_of_time_fail_the_exploration_in_ci_alone",
    ),
    Mutant(
        "lab-budget-of-one-process",
        "the budget does not count the CPU time of forked processes",
        KIT + "lab.budget",
        "CpuBudget.used",
        "sum(self._sums)",
        "self._sums[self._slot]",
        test=OF_LAB + "test_budget.py::test_the_time_of_a_forked_process_is_seen_by_the_one_that_forked_it",
    ),
    Mutant(
        "loop-overtakes-transports",
        "in a drawn order a task overtakes a callback of asyncio's input and output",
        KIT + "loop",
        "VirtualTimeLoop._shuffle",
        "isinstance(_owner(handle), _INPUT_AND_OUTPUT)",
        "False",
        test=OF_LAB + "test_scheduler.py::test_connections_over_real_sockets_work_in_every_order_of_tasks",
    ),
    Mutant(
        "lab-allows-every-kind",
        "a difference that is allowed for one kind is allowed for all kinds",
        KIT + "lab.allowances",
        "Mask.means",
        "self.kind is None",
        "True",
        test=OF_LAB + "test_masks.py::test_parts_that_may_differ_are_dropped_from_objects_of_their_kind_alone",
    ),
    Mutant(
        "lab-blocking-unseen",
        "a blocking call whose error the program swallows is no finding",
        KIT + "blocking",
        "_refuse",
        "_report[-1](words)",
        "",
        test=OF_LAB
        + "test_blocking.py::test_a_reconciler_that_sleeps_is_a_finding_of_the_undisturbed_run_even_if_it_swallows_the_error",
    ),
)
