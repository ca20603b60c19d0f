"""Planted faults of recordings and `konverge replay`, each with the test that finds it. Only data."""

from __future__ import annotations

from typing import Final

from planting import Mutant

__all__ = ["RECORDING"]

ROOM: Final = "konverge.recording."
KIT: Final = "konverge_testing.replay."
UNIT: Final = "tests/unit/recording/"
REPLAY: Final = "testkit/tests/unit/replay/"

RECORDING: Final = (
    Mutant(
        "recording-shows-copies",
        "a copy of a secret value in another object is recorded",
        ROOM + "blanks",
        "Blanks._learn",
        "len(form) < SHORTEST or form in self._known",
        "True",
        test=UNIT + "test_blanks.py::test_a_copy_of_a_known_value_is_blanked_in_any_document",
    ),
    Mutant(
        "recording-grows",
        "the file of a recording grows without a bound",
        ROOM + "files",
        "LogFiles.write",
        "self._begin()",
        "pass",
        test=UNIT + "test_files.py::test_two_files_hold_the_last_reconciles_in_the_given_size",
    ),
    Mutant(
        "recording-forgets-documents",
        "a file after a rotation lacks the documents of the file before",
        ROOM + "files",
        "LogFiles._begin",
        "self._known.clear()",
        "pass",
        test=UNIT + "test_files.py::test_two_files_hold_the_last_reconciles_in_the_given_size",
    ),
    Mutant(
        "replay-in-the-present",
        "a replay shows the present time",
        KIT + "runs",
        "_Tap.around",
        "(self._moment - EPOCH).total_seconds() - now",
        "1.0",
        test=REPLAY + "test_replay.py::test_the_same_program_repeats_each_recorded_reconcile",
    ),
    Mutant(
        "replay-accepts",
        "a replay accepts a write that the server refused",
        KIT + "cluster",
        "RecordedCluster._repeat",
        "Response(exchange.status, body, exchange.response_type or JSON, exchange.retry_after)",
        "Response(200, body, exchange.response_type or JSON, exchange.retry_after)",
        test=REPLAY + "test_replay.py::test_a_recorded_refusal_of_the_server_is_repeated",
    ),
    Mutant(
        "test-without-changes",
        "a written test leaves out the changes of other writers",
        KIT + "story",
        "_changes",
        "yield Change('patch', after, main)",
        "pass",
        test=REPLAY + "test_as_test.py::test_the_generated_test_fails_with_the_bug_only",
    ),
)
