"""Shared informers: stores that follow the API server, and handlers that are told of changes.

    machine.py       list and watch as a state machine; backoff.py, messages.py, problem.py beside it
    reflector.py     its driver, which alone talks to the client
    decode.py        from bytes to what is cached (cached.py), equal parts once (sharing.py)
    store.py         objects and indexes (index.py); one writer, many readers
    mirror.py        what the machine's effects do to store, handlers and reports (report.py, meters.py, statistics.py)
    delivery.py      one coalescing queue per handler
    pace.py          turns of the event loop
    informer.py      one informer; informer_set.py: all of a manager, shared and owned

Promises: a dead watch is noticed and repaired within 75 s; a relist tells of the deletions that were missed; a missing right or kind
degrades its own informer and mends itself. Read the contract in `informer.py`.

Does not promise: that handlers see every state; order between objects or kinds; anything about what handlers do with a change.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.informers; the folder at the root is the same room under another name")

from konverge.informers.cached import Cached
from konverge.informers.delivery import Change, Handler, Registration
from konverge.informers.index import OWNER, IndexFunction
from konverge.informers.informer import Informer
from konverge.informers.informer_set import InformerSet, NamedApi
from konverge.informers.problem import Cause, Problem
from konverge.informers.reflector import Api
from konverge.informers.settings import InformerSettings, Selection, Transform
from konverge.informers.statistics import HandlerStatistics, InformerStatistics
from konverge.informers.store import Store

__all__ = [
    "OWNER",
    "Api",
    "Cached",
    "Cause",
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
]
