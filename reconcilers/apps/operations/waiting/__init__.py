"""Operations before their start: the preconditions, the order on a target, and the claim of the target.

observe    the target and its other Operations from caches; then the rendered object and the namespace, read live
decide     the first precondition that does not hold (pure): readiness, approval, conflicts (with the queue), policy (with windows)
act        the claim: a dry run after a missing right, and the hold on the target (lease: compare-and-swap; turns: the format of the Lease)
"""

from __future__ import annotations
