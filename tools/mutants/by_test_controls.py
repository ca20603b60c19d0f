"""Planted faults in the controls that an operator's author declares: pauses, retries, priorities. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["CONTROLS"]

PAUSE: Final = "tests/unit/runtime/test_pause.py::"
QUEUE: Final = "tests/unit/runtime/test_queue_functions.py::"

CONTROLS: Final = (
    Mutant(
        "pause-filtered",
        "a predicate of the controller hides the begin and the end of a pause",
        "konverge.runtime.controller.event_handlers",
        "key_of_object",
        "spec.pausable_by is not None and spec.pausable_by.changed(change)",
        "False",
        test=PAUSE + "test_a_predicate_hides_no_change_of_the_pause",
    ),
    Mutant(
        "pause-observes-the-generation",
        "the status of a paused object reports the new generation as handled",
        "konverge.runtime.controller.status_step",
        "StatusWriter._apply",
        "failed or ctx.paused != ''",
        "failed",
        test=PAUSE + "test_a_paused_object_waits_and_names_its_pause",
    ),
    Mutant(
        "pause-holds-up-deletion",
        "each pause holds up the deletion of an object",
        "konverge.runtime.builder.pause",
        "pauses",
        "not deleted or deletion or value == _WITH_DELETION",
        "True",
        test=PAUSE + "test_deletion_of_a_paused_object_waits_only_if_the_pause_includes_it",
    ),
    Mutant(
        "pause-with-a-finalizer",
        "an object that is created in a pause gets the finalizer",
        "konverge.runtime.controller.pipeline",
        "Finalizers.begin",
        "paused or (spec.may_hold is not None and (not spec.may_hold(cached.metadata, self._services.caches)))",
        "spec.may_hold is not None and (not spec.may_hold(cached.metadata, self._services.caches))",
        test=PAUSE + "test_an_object_created_in_a_pause_gets_no_finalizer",
    ),
    Mutant(
        "low-priority-starves",
        "a stream of keys with a higher priority starves a key",
        "konverge.workqueue.schedule",
        "Lanes.pop",
        "self._by_priority >= self._oldest_every",
        "False",
        test=QUEUE + "test_events_of_objects_that_matter_more_starve_no_object",
    ),
    Mutant(
        "invalid-delay",
        "an invalid delay of an operator's function reaches the queue",
        "konverge.runtime.controller.own_functions",
        "GuardedLimiter.when",
        "not 0 <= delay < math.inf",
        "False",
        test=QUEUE + "test_a_failing_function_of_retries_gives_way_to_the_default_delay",
    ),
)
