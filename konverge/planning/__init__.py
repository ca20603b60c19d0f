"""`konverge plan`: what a version of an operator would change on a cluster, without changing it.

    planner.py      one plan: starts the operator, selects the keys, waits until nothing is left to do
    gate.py         which keys are reconciled, and what each reconcile did
    transport.py    the seam: every request of the operator passes it; reads are overlaid, writes become dry runs
    writes.py       writes as dry runs, and as steps on the planned state; responses.py: their responses
    overlay.py      the planned state of each object, and the events of its changes; watching.py: their watch
    targets.py      what a request is about
    documents.py    merges and differences of JSON documents
    report.py       the result as data; text.py: for people

Guarantees: reconcilers, caches and queues are the running operator's own; only its transport is another. The API server stores nothing, and
no Event, Lease, finalizer or status is written.

Caveats: see `konverge.planning.planner`, and docs/guide/plan.md.
"""

from __future__ import annotations

from konverge.planning.gate import Selector
from konverge.planning.planner import plan
from konverge.planning.report import NotTried, ObjectChange, PlanFailure, PlanReport
from konverge.planning.text import text_of

__all__ = ["PlanFailure", "NotTried", "ObjectChange", "PlanReport", "Selector", "plan", "text_of"]
