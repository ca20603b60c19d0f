"""A de-duplicating, delaying, rate-limited, prioritised work queue for asyncio.

Keys are any hashable values and reasons are strings: nothing here knows what the work is about.

    core.py        the rules, as a plain object: no await, no clock, every method is told the time
    queue.py       the shell: `await get()`, one timer, draining
    backoff.py     when a failed key is tried again, and why a storm of events does not put that off
    limiters.py    the delays that backoff is made of
    pace.py        minimum interval and debounce per key
    entry.py       what waits (an entry) and what a worker is given (an item)
    lanes.py       what is ready, by priority, first in first out
    timetable.py   what is not ready yet, by time
    report.py      statistics, and the answer to "why does this key wait?"
    metrics.py     the measures, without naming who collects them

Promises: no key is worked on twice at a time; no add is lost; any number of adds while a key is in work cause exactly one more
run; the earliest of the asked-for times and the highest priority win; the reasons of all merged adds travel with the run.

Does not promise: fairness between the tasks that wait in `get`, durability (the queue lives in memory), use from a thread
other than the loop's.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.workqueue; the folder at the root is the same room under another name")

from konverge.workqueue.backoff import NEAR, Backoff, keeps_deadline
from konverge.workqueue.core import QueueCore
from konverge.workqueue.entry import MAX_REASONS, Item, Wait
from konverge.workqueue.limiters import Bucket, ItemExponential, Jitter, Limiter, MaxOf, MaxWait
from konverge.workqueue.metrics import NoMetrics, QueueMetrics
from konverge.workqueue.pace import Pace
from konverge.workqueue.queue import ShutDown, WorkQueue
from konverge.workqueue.report import Snapshot, Statistics, Waiting, Working

__all__ = [
    "MAX_REASONS",
    "NEAR",
    "Backoff",
    "Bucket",
    "Item",
    "ItemExponential",
    "Jitter",
    "Limiter",
    "MaxOf",
    "MaxWait",
    "NoMetrics",
    "Pace",
    "QueueCore",
    "QueueMetrics",
    "ShutDown",
    "Snapshot",
    "Statistics",
    "Wait",
    "Waiting",
    "WorkQueue",
    "Working",
    "keeps_deadline",
]
