"""The decision on one object: keep it, claim it, clear its stamp, or wait. Pure; no other code decides this.

Not held by this member

    another member should own it                        wait
    no owner, or its owner gave it back                 claim
    its owner is dead, or has released its Lease        claim
    the owner is alive, or was never seen               wait
    the stamp names this member (a late write, forged)  claim; or clear it, if another should own it and no reconcile runs
    the stamp was removed or replaced by hand           while the former owner is alive: wait until it writes its stamp again

Held by this member

    the stamp was removed or replaced                   claim it again
    this member should own it                           keep
    another should, a reconcile runs                    drain: begin no further reconcile
    another should, none runs                           clear the stamp: the acknowledgement

Guarantees: `tests/unit/runtime/sharding/test_model.py` runs every interleaving of small rings with this function: crashes, late
writes, lost responses, stale caches, stamps that were removed and forged, and contradictory views of the ring.

Caveats: a person who writes `/<epoch>` forges an acknowledgement. The owner claims the object again as soon as it sees that; if the
object was about to be handed over, a reconcile of another member may overlap until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from konverge.runtime.sharding.stamp import Stamp, next_epoch

__all__ = ["ShardAction", "ShardDecision", "MemberState", "ShardView", "decide", "former_after"]


class MemberState(Enum):
    """The state of a member, judged by its Lease."""

    READY = "ready"
    EXPIRED = "expired"
    """Not renewed in time; it keeps its objects for one more duration."""
    DRAINING = "draining"
    """The member stops: it takes no further object, and keeps its objects until it releases its Lease."""
    DEAD = "dead"
    """Not renewed for so long that its fence has closed, for good: a process returns as another member."""
    RELEASED = "released"
    """The member has ended its last reconcile and released its Lease."""
    UNKNOWN = "unknown"
    """In a stamp, but without a Lease."""

    @property
    def gone(self) -> bool:
        """Whether no reconcile of this member runs or ever will."""
        return self in (MemberState.DEAD, MemberState.RELEASED)

    @property
    def alive(self) -> bool:
        """Whether a Lease shows that reconciles of this member may run."""
        return not self.gone and self is not MemberState.UNKNOWN


class ShardAction(Enum):
    """The actions on one object."""

    KEEP = "reconcile it"
    CLAIM = "write the own stamp with this epoch, by compare-and-swap"
    CLEAR = "write a stamp without an owner, by compare-and-swap"
    DRAIN = "begin no further reconcile, and clear the stamp when the present one has ended"
    WAIT = "leave it to another member"


@dataclass(frozen=True, slots=True)
class ShardDecision:
    """The action on an object; the epoch of the held or written stamp."""

    action: ShardAction
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ShardView:
    """One object as a member sees it."""

    me: str
    desired: str
    """The member that should own it; "" if none is known."""
    stamp: Stamp | None
    """The stamp in the cache, None if no member wrote it."""
    version: str
    """The resourceVersion in the cache."""
    held: int = 0
    """The epoch of this member's own stamp: written, confirmed, and not cleared since. 0 for none."""
    current: bool = True
    """Whether the cache is as new as the held stamp."""
    former: Stamp | None = None
    """The stamp before the present stamp, if its owner may not know yet of the replacement: see `former_after`."""
    running: bool = False
    """Whether a reconcile of this member runs."""


def decide(view: ShardView, state_of: Callable[[str], MemberState]) -> ShardDecision:
    """Return the action on an object, and its epoch.

    >>> view = ShardView("b", desired="b", stamp=Stamp("a", 7), version="12")
    >>> decide(view, lambda member: MemberState.DEAD)
    ShardDecision(action=<ShardAction.CLAIM: 'write the own stamp with this epoch, by compare-and-swap'>, epoch=12)
    """
    if view.held:
        return _of_held(view)
    own = view.stamp is not None and view.stamp.owner == view.me
    if not (own or _free(view.stamp, state_of)) or not _free(view.former, state_of):
        return ShardDecision(ShardAction.WAIT)
    if view.desired == view.me:
        return ShardDecision(ShardAction.CLAIM, next_epoch(view.stamp, view.version))
    if own and view.desired and view.stamp is not None and not view.running:
        return ShardDecision(ShardAction.CLEAR, view.stamp.epoch)
    return ShardDecision(ShardAction.WAIT)


def former_after(former: Stamp | None, old: Stamp | None, new: Stamp | None) -> Stamp | None:
    """Return the stamp whose owner may not know yet that `new` replaced it; None if the owner gave the object back or still has it.

    >>> former_after(None, Stamp("a", 7), Stamp("", 7)), former_after(None, Stamp("a", 7), None)
    (None, Stamp(owner='a', epoch=7))
    """
    before = former or (old if old is not None and old.owner else None)
    if before is None or new is None:
        return before
    given_back = not new.owner and new.epoch >= before.epoch
    return None if given_back or new.owner == before.owner else before


def _of_held(view: ShardView) -> ShardDecision:
    if view.current and view.stamp != Stamp(view.me, view.held):
        return ShardDecision(ShardAction.CLAIM, max(next_epoch(view.stamp, view.version), view.held + 1))
    if view.desired in ("", view.me):
        return ShardDecision(ShardAction.KEEP, view.held)
    return ShardDecision(ShardAction.DRAIN if view.running else ShardAction.CLEAR, view.held)


def _free(stamp: Stamp | None, state_of: Callable[[str], MemberState]) -> bool:
    return stamp is None or not stamp.owner or state_of(stamp.owner).gone
