"""A de-duplicating, delaying, rate-limited, prioritised work queue for asyncio.

A key is any hashable value and a reason is a string: the queue does not depend on Kubernetes.

    core.py        the rules, as a plain object: no await, no clock, the time is an argument of every method
    queue.py       the asyncio shell: `await get()`, one timer, draining
    backoff.py     the exponential delay of a failed key, and when a failure counts, so that events do not inflate it
    limiters.py    the limiter protocol, the token bucket and combinations of limiters
    entry.py       a waiting key (entry) and a key handed to a worker (item)
    schedule.py    ready entries by priority, delayed entries by time, minimum interval and debounce per key
    report.py      statistics, and for each key why it waits
    metrics.py     the interface of metrics

Guarantees: a key is handed to one worker at a time; no add is lost; any number of adds while a key is in work cause exactly one more
run; the earliest requested time and the highest priority win; an item carries the reasons of all merged adds; with `oldest_every` no
stream of keys of a higher priority starves a key.

Caveats: the tasks that wait in `get` are not served in a fair order; the queue lives in memory; it may be used from its event
loop's thread only.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.workqueue; the folder at the root is the same room under another name")

from konverge.workqueue.backoff import EARLY_RETRY, ItemExponential, RetryDeadlines, keeps_deadline
from konverge.workqueue.core import QueueCore
from konverge.workqueue.entry import MAX_REASONS, Item, WaitReason
from konverge.workqueue.limiters import Bucket, Jitter, Limiter, MaxOf, MaxWait
from konverge.workqueue.metrics import NoMetrics, QueueMetrics
from konverge.workqueue.queue import ShutDown, WorkQueue
from konverge.workqueue.report import Snapshot, Statistics, Waiting, Working
from konverge.workqueue.schedule import Throttle

__all__ = [
    "MAX_REASONS",
    "EARLY_RETRY",
    "RetryDeadlines",
    "Bucket",
    "Item",
    "ItemExponential",
    "Jitter",
    "Limiter",
    "MaxOf",
    "MaxWait",
    "NoMetrics",
    "Throttle",
    "QueueCore",
    "QueueMetrics",
    "ShutDown",
    "Snapshot",
    "Statistics",
    "WaitReason",
    "Waiting",
    "WorkQueue",
    "Working",
    "keeps_deadline",
]
