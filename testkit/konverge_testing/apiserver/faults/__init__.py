"""Faults of the server: rules that strike requests and watches while it runs.

    faults = server.faults
    rule = faults.add(Rule(Match(verbs=("create",), resources=("secrets",)), Drop(moment="after"), count=1))
    frozen = faults.add(Rule(Match(verbs=("watch",), resources=("secrets",)), Freeze()))
    ...
    faults.remove(frozen)                                                            # thaws
    assert [str(hit.about) for hit in rule.hits] == ["create secrets web/target"]

Guarantees: rules act in the order of their addition, on both shells alike, and by the loop's own time. Without rules each hook
costs one comparison. A removed rule releases the requests and lines that it held.

The server calls the hooks: `before` when the target of a request is known and before any object is read, `after` when a write is
stored or a read served, `stream` around the lines of a watch. `Orders` are instructions that only the server itself can carry out.
"""

from __future__ import annotations

from konverge_testing.apiserver.faults.injection import NOTHING, Faults, MayStrike, OnHit, Orders
from konverge_testing.apiserver.faults.streams import Dropped, StaleView

__all__ = ["NOTHING", "MayStrike", "Dropped", "Faults", "OnHit", "Orders", "StaleView"]
