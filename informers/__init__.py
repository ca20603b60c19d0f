"""Shared informers: stores that follow the API server, and handlers that receive the changes.

    machine.py             list and watch as a state machine; backoff.py, messages.py, problem.py beside it
    reflector.py           the driver of the machine, the only module that calls the client; resources that are not listed as a stream
    decode.py              bytes to cached objects and changes, with equal parts interned
    store.py               cached objects and their indexes; one writer, many readers
    effect_handler.py      the writer: applies the machine's effects to store, handlers and reports (report.py, meters.py, statistics.py)
    delivery.py            one coalescing queue per handler, and the time of its work before it yields to the event loop
    informer.py            one informer; informer_set.py: all informers of a manager, shared and owned

Guarantees: a dead watch is replaced within 75 s (`InformerSettings.watch_idle`); a relist delivers the deletions that the watch missed; a
missing right or kind degrades only its own informer, which recovers by itself. The contract is in `informer.py`.

Caveats: handlers may miss intermediate states; objects and kinds have no common order.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.informers; the folder at the root is the same room under another name")

from konverge.informers.delivery import Handler, Registration
from konverge.informers.informer import Informer
from konverge.informers.informer_set import InformerSet, NamedApi
from konverge.informers.messages import Change
from konverge.informers.problem import Problem, RestartCause
from konverge.informers.reflector import Api
from konverge.informers.settings import InformerSettings, Selection, Transform, Whole
from konverge.informers.statistics import HandlerStatistics, InformerStatistics
from konverge.informers.store import OWNER, Cached, IndexFunction, Store

__all__ = [
    "OWNER",
    "Api",
    "Cached",
    "RestartCause",
    "Change",
    "Handler",
    "HandlerStatistics",
    "IndexFunction",
    "Informer",
    "InformerSet",
    "InformerSettings",
    "InformerStatistics",
    "NamedApi",
    "Problem",
    "Registration",
    "Selection",
    "Store",
    "Transform",
    "Whole",
]
