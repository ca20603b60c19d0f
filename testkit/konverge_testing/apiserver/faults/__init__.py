"""Faults of the server: rules that strike requests and watches while it runs.

    faults = server.faults
    rule = faults.add(Rule(Match(verbs=("create",), resources=("secrets",)), Drop(moment="after"), count=1))
    frozen = faults.add(Rule(Match(verbs=("watch",), resources=("secrets",)), Freeze()))
    ...
    faults.remove(frozen)                                                            # thaws
    assert [str(hit.about) for hit in rule.hits] == ["create secrets web/target"]

Guarantees: rules act in the order in which they were added, on both shells alike, and by the loop's own time. Without rules each hook
costs one comparison. A rule that is removed lets go of what it held.

The server calls the hooks: `before` when it knows what a request is about and before it looks at any object, `after` when a write is
stored or a read answered, `stream` around the lines of a watch. `Orders` are what only the server itself can do.
"""

from __future__ import annotations

from konverge_testing.apiserver.faults.injection import NOTHING, Faults, MayStrike, OnHit, Orders
from konverge_testing.apiserver.faults.streams import Dropped, StaleView

__all__ = ["NOTHING", "MayStrike", "Dropped", "Faults", "OnHit", "Orders", "StaleView"]
