"""The garbage collector does not track the state of each key, since a full collection blocks the loop.

The rules are CPython's own: a collection untracks tuples that contain nothing tracked, and (up to Python 3.13) a dict is untracked as long
as it contains nothing tracked.
"""

import gc
import sys
from datetime import UTC, datetime

import pytest

from konverge.client.ledger import Ledger, Write, WriteState
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.controller.aftermath import History
from konverge.runtime.observability.record import ReconcileRecord

SECRET = kind("v1", "Secret")
NUMBER = 500
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)


def passed(key: Key, number: int) -> ReconcileRecord:
    return ReconcileRecord(
        key=key,
        reconcile_id=str(number),
        started=EARLIEST,
        duration=0.1,
        reasons=("generation",),
        outcome="Done",
        writes=("status",),
    )


def test_neither_keys_nor_passes_nor_writes_are_tracked() -> None:
    key = Key("", SECRET, "web", "target")
    write = Write(SECRET, "web", "target", WriteState.DONE, "7", "u", 1)
    assert not any(map(gc.is_tracked, (key, passed(key, 1), write)))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 tracks every dict")
def test_processed_keys_add_no_objects_to_garbage_collection() -> None:
    ledger, history = Ledger(), History()
    gc.collect()
    before = len(gc.get_objects())
    for number in range(NUMBER):
        key = Key("", SECRET, "web", f"target-{number}")
        writer = ("controller", key)
        ledger.begin(writer, SECRET, "web", key.name).settle(str(number), f"uid-{number}")
        for again in range(7):
            history.add(passed(key, again))
    gc.collect()
    added = len(gc.get_objects()) - before
    assert added < NUMBER / 10, f"{added} objects more are tracked after {NUMBER} keys"
    assert len(ledger.pending(("controller", Key("", SECRET, "web", "target-0")))) == 1


def test_a_history_keeps_the_last_five_reconciles_of_a_key_oldest_first() -> None:
    history = History()
    key = Key("", SECRET, "web", "target")
    for number in range(7):
        history.add(passed(key, number))
    assert [record.reconcile_id for record in history.of(key)] == ["2", "3", "4", "5", "6"]
