"""Planted faults of caches without a part of their objects, each found by a named test. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["CACHES"]

DROPPED: Final = "tests/unit/runtime/test_dropped_fields.py::"
METADATA: Final = "tests/unit/runtime/test_metadata_only.py::"

CACHES: Final[tuple[Mutant, ...]] = (
    Mutant(
        "metadata-drift-unseen",
        "drift of a child without a cached body is not repaired, since the field set is not compared",
        "konverge.runtime.apply.applier",
        "still_owns_last_apply",
        "result.owned == digest(decode_fields(owned))",
        "True",
        test=METADATA + "test_drift_of_an_applied_field_is_repaired_and_other_changes_are_left",
    ),
    Mutant(
        "metadata-intent-unseen",
        "a new intent for a child without a cached body is not applied",
        "konverge.runtime.apply.applier",
        "still_owns_last_apply",
        "result.intent == digest(applied_part(intent))",
        "True",
        test=METADATA + "test_a_new_intent_is_applied_and_a_deleted_child_is_created_again",
    ),
    Mutant(
        "dropped-field-written",
        "a child sets a field that its cache drops, and is applied in each reconcile",
        "konverge.runtime.reconcile.children",
        "Children.send",
        "if self._services.partial:\n    self.refuse_dropped(key, intent)",
        "pass",
        test=DROPPED + "test_a_child_that_sets_a_dropped_field_is_refused",
    ),
    Mutant(
        "body-depends-on-a-request",
        "the body of a child without a cached body can be read if an apply was sent",
        "konverge.runtime.reconcile.children",
        "view_of",
        "part.metadata_only",
        "False",
        test=METADATA + "test_own_returns_metadata_whether_or_not_it_sent_an_apply",
    ),
    Mutant(
        "own-status-without-dropped-fields-unknown",
        "the own write of a status is not recognized if the cache drops another field of the status",
        "konverge.runtime.controller.status_step",
        "StatusWriter._apply",
        "self._dropped.strip(response.body)",
        "response.body",
        test=DROPPED + "test_a_primary_object_lacks_dropped_fields_and_its_status_is_written_once",
    ),
)
