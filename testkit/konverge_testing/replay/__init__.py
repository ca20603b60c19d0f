"""`konverge replay`: a recorded reconcile, run again in virtual time, and as a test.

    command.py      the command
    cluster.py      an API server that responds as the record shows; runs.py: one replay over it
    comparison.py   the replayed reconcile beside the recorded one
    story.py        the objects before a reconcile, and the changes of other writers; scenario.py: as the text of a test
    restored.py     what such a test works with

Guarantees: a replay sends nothing to any server.
"""

from __future__ import annotations

from konverge_testing.replay.comparison import ReplayReport, compare, text_of
from konverge_testing.replay.restored import Restored
from konverge_testing.replay.runs import Replayed, replay
from konverge_testing.replay.scenario import scenario_of

__all__ = ["ReplayReport", "Replayed", "Restored", "compare", "replay", "scenario_of", "text_of"]
