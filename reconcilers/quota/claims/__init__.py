"""Claims: the pool or the queue that a claim without a responsible pool gets, and the status of every claim.

observe      cached claim and pools -> ObservedClaim
assign       the pool that has room for a claim (pure)
queue        when a claim is put in the queue of a pool, its position, and the claims that it blocks (pure)
decide       which controller writes the status, and the decision if no pool is responsible (pure)
decision     the decisions about a claim, with their messages
conditions   a decision <-> conditions, in the forms of v0.12 and v0.14 (pure)
status       the rendered status and its Event (pure)
reconciler   the controller of claims without a responsible pool
"""

from __future__ import annotations
