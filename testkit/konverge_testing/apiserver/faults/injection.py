"""`Faults`: the rules of a running server, and the hooks that apply them to requests and watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

import msgspec

from konverge_testing.apiserver.faults import rules as kinds
from konverge_testing.apiserver.faults.rules import About, Hit, Match, Moment, Rule
from konverge_testing.apiserver.faults.streams import Dropped, Holding, StaleView, Watched, stage_of
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["NOTHING", "MayStrike", "Faults", "OnHit", "Orders"]

OnHit: TypeAlias = Callable[[Hit], None]
MayStrike: TypeAlias = Callable[[], bool]

_STREAMS: Final = (kinds.Cut, kinds.Expire, kinds.Freeze, kinds.Lines, kinds.Bookmarks)
_READS: Final = frozenset({"get", "list", "watch"})
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Orders(msgspec.Struct, frozen=True):
    """Instructions for the server before it handles a request: serve it from a view, raise its version by `jump`, forget its history."""

    view: StaleView | None = None
    jump: int = 0
    forget: bool = False


NOTHING: Final = Orders()


class _Armed:
    """A rule in force: how many requests it matched, and whether it still holds requests or lines."""

    def __init__(self, rule: Rule, on_hit: OnHit | None, may_strike: MayStrike | None) -> None:
        self.rule = rule
        self.released = asyncio.Event()
        self._on_hit = on_hit
        self._may_strike = may_strike
        self._may = True
        self._matched = 0
        self._view: StaleView | None = None
        self._steps: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def strikes(self) -> int:
        """Count one more matching request; return its number if the rule strikes it, else 0."""
        self._matched += 1
        return self._matched if self.rule.strikes(self._matched) else 0

    def may(self) -> bool:
        """Return whether the rule may strike at all; calls `may_strike` the first time."""
        if self._may_strike is not None:
            may_strike, self._may_strike = self._may_strike, None
            self._may = may_strike()
        return self._may

    def hit(self, about: About, number: int) -> None:
        found = Hit(asyncio.get_running_loop().time(), about, number)
        self.rule.hits.append(found)
        if self._on_hit is not None:
            self._on_hit(found)

    def hold(self) -> None:
        """Start the timer of a holding fault, unless it is running."""
        fault = self.rule.fault
        if isinstance(fault, (kinds.Freeze, kinds.Stale)) and self._timer is None and self._steps is None:
            self._steps = fault.steps
            if fault.seconds is not None:
                self._timer = asyncio.get_running_loop().call_later(fault.seconds, self.release)

    def view(self, current: Callable[[], int]) -> StaleView:
        """Return the view of a stale rule; its version is relative to the current version at the first hit."""
        fault = self.rule.fault
        assert isinstance(fault, kinds.Stale)
        if self._view is None:
            self._view = StaleView(max(0, current() - fault.behind) if fault.version is None else fault.version)
            self.hold()
        return self._view

    def step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps <= 0:
                self.release()

    def release(self) -> None:
        self.released.set()
        if self._view is not None:
            self._view.ended.set()
        if self._timer is not None:
            self._timer.cancel()


class Faults:
    """The rules of one server. `version` returns the server's current resourceVersion; the server sets it."""

    def __init__(self, version: Callable[[], int] = lambda: 0) -> None:
        self.version = version
        self._armed: list[_Armed] = []
        self._open: list[Watched] = []

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force, in order."""
        return tuple(armed.rule for armed in self._armed)

    @property
    def watches(self) -> tuple[About, ...]:
        """The descriptions of the open watches, in the order of their opening."""
        return tuple(watch.about for watch in self._open)

    def add(self, rule: Rule, on_hit: OnHit | None = None, *, may_strike: MayStrike | None = None) -> Rule:
        """Put a rule in force. `on_hit` is called at each hit, before the fault acts: for example to end a process at a write.

        `may_strike` is called once, when the rule would strike for the first time; if it returns False, the rule never strikes, and has
        only counted until then. It is not called for effects without a hit: a Drop of `watches`, a Stale view of open watches.
        """
        armed = _Armed(rule, on_hit, may_strike)
        self._armed.append(armed)
        for watch in tuple(self._open):
            self._enrol(armed, watch)
        if isinstance(rule.fault, kinds.Drop) and rule.fault.watches:
            self.disconnect(rule.match)
        return rule

    def remove(self, rule: Rule) -> None:
        """Remove a rule, and release what it holds; does nothing if the rule is not in force."""
        for armed in [one for one in self._armed if one.rule is rule]:
            self._armed.remove(armed)
            armed.release()
            for watch in self._open:
                watch.lift(armed)

    def clear(self) -> None:
        """Remove all rules."""
        for rule in self.rules:
            self.remove(rule)

    def disconnect(self, match: Match | None = None) -> int:
        """Break off the matching open watches now; returns how many."""
        chosen = [watch for watch in self._open if match is None or match.means(watch.about)]
        for watch in chosen:
            watch.drop()
        return len(chosen)

    def concern(self, user_agent: str) -> bool:
        """Return whether a rule in force may match requests of a client with this User-Agent."""
        return any(armed.rule.match.fits(user_agent) for armed in self._armed)

    # --- hooks ------------------------------------------------------------------------------------------------------------------

    async def before(self, call: Call, about: About) -> Orders:
        """Apply the rules before a request has any effect. Raises StatusError or Dropped; returns the server's instructions."""
        if not self._armed:
            return NOTHING
        orders = NOTHING
        for armed in tuple(self._armed):
            fault = armed.rule.fault
            if isinstance(fault, kinds.Stale):
                view = self._view(armed, fault, call, about)
                orders = orders if view is None else msgspec.structs.replace(orders, view=view)
            elif isinstance(fault, _STREAMS) or not armed.rule.match.means(about):
                continue
            elif isinstance(fault, kinds.Jump):
                by = fault.by if self._struck(armed, about) else 0
                orders = msgspec.structs.replace(orders, jump=orders.jump + by)
            elif isinstance(fault, kinds.Forget):
                orders = msgspec.structs.replace(orders, forget=self._struck(armed, about) or orders.forget)
            else:
                await self._strike(armed, about, "before")
        return orders

    async def after(self, call: Call, about: About, answer: Response) -> None:  # noqa: ARG002  # all hooks have this signature
        """Apply the rules to a successful request before its response is sent. Raises StatusError or Dropped."""
        if not self._armed or answer.status >= 400:
            return
        for armed in tuple(self._armed):
            if armed.rule.match.means(about):
                await self._strike(armed, about, "after")
        if about.writes:
            for armed in tuple(self._armed):
                armed.step()

    def stream(
        self,
        call: Call,  # noqa: ARG002  # all hooks have this signature
        about: About,
        lines: AsyncIterator[bytes],
        view: StaleView | None = None,
    ) -> AsyncIterator[bytes]:
        """Return the lines of a watch after the rules; `view` is the view that `before` returned for this request."""
        watch = Watched(about, lines, self._forget)
        if view is not None:
            watch.put(self, Holding(view))
        enrolled = tuple(self._armed)
        for armed in enrolled:
            self._enrol(armed, watch)
        self._open.append(watch)
        for armed in enrolled:
            if armed not in self._armed:  # another rule's hit removed it
                watch.lift(armed)
        return watch

    # --- inside -----------------------------------------------------------------------------------------------------------------

    def _forget(self, watch: Watched) -> None:
        if watch in self._open:
            self._open.remove(watch)

    def _struck(self, armed: _Armed, about: About) -> bool:
        number = armed.strikes()
        if not number or not armed.may():
            return False
        armed.hit(about, number)
        return True

    def _view(self, armed: _Armed, fault: kinds.Stale, call: Call, about: About) -> StaleView | None:
        if armed.released.is_set() or about.verb not in _READS or not armed.rule.match.means(about):
            return None
        if fault.honest and not call.query.get("resourceVersion"):
            return None
        return armed.view(self.version) if self._struck(armed, about) else None

    async def _strike(self, armed: _Armed, about: About, moment: Moment) -> None:
        fault = armed.rule.fault
        if not isinstance(fault, (kinds.Delay, kinds.Hang, kinds.Refuse, kinds.Drop)) or fault.moment != moment:
            return
        if not self._struck(armed, about):
            return
        if isinstance(fault, kinds.Delay):
            await asyncio.sleep(fault.seconds)
        elif isinstance(fault, kinds.Hang):
            await armed.released.wait()
        elif isinstance(fault, kinds.Refuse):
            raise _refusal(fault)
        else:
            raise Dropped(about, maybe_done=not (fault.refused and moment == "before"))

    def _enrol(self, armed: _Armed, watch: Watched) -> None:
        fault = armed.rule.fault
        if armed.released.is_set() or not armed.rule.match.means(watch.about):
            return
        if isinstance(fault, kinds.Stale):
            if watch in self._open and not fault.honest:
                watch.put(armed, Holding(armed.view(self.version)))
            return
        if not isinstance(fault, _STREAMS):
            return
        number = armed.strikes()
        if number:

            def struck() -> bool:
                if not armed.may():
                    return False
                armed.hold()
                armed.hit(watch.about, number)
                return True

            watch.put(armed, stage_of(fault, struck, armed.released))


def _refusal(fault: kinds.Refuse) -> StatusError:
    details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else None
    return StatusError(
        fault.status,
        fault.reason or _REASONS.get(fault.status, ""),
        fault.message or "refused by a fault",
        details=details,
        retry_after=fault.retry_after,
    )
