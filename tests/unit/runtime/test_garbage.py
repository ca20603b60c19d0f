"""Records of passes and writes, kept for every key, are not looked through by the garbage collector: a full collection holds the loop."""

from __future__ import annotations

import gc
from datetime import UTC, datetime

from konverge.client.ledger import Write, WriteState
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.record import PassRecord

SECRET = kind("v1", "Secret")


def test_neither_the_last_passes_nor_the_writes_of_a_key_are_tracked() -> None:
    key = Key("", SECRET, "web", "target")
    record = PassRecord(
        key=key,
        reconcile_id="1",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        duration=0.1,
        reasons=("generation",),
        outcome="Done",
        writes=("status",),
    )
    write = Write(SECRET, "web", "target", WriteState.DONE, "7", "u", 1)
    assert not any(map(gc.is_tracked, (record, write, {1: write})))
