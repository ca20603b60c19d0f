"""An engine whose controller gives no sign any more: the report of its Operation, and the end of an Operation that has to stop.

A sign is any write to the object, and other evidence of the engine (Velero validates its locations once a minute).

Guarantees: pure. An Operation ends in this way only if it has to stop: a controller that recovers in time loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from konverge.clock import from_rfc3339, rfc3339
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    EngineRequest,
    EngineState,
    Observation,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.words import CancelledReason, RunningReason

__all__ = ["Silence", "last_write", "silence"]


@dataclass(frozen=True, slots=True)
class Silence:
    """How long there has been no sign of an engine's controller.

    `object`: how messages name the object. `advice`: what happens to it after an end without its controller.
    """

    object: str
    last: datetime | None
    left: timedelta = timedelta(0)
    """The time until the silence is reported; 0 or less once it is."""
    left_to_end: timedelta = timedelta(0)
    """The time until an Operation that has to stop ends: this process itself has seen no sign for so long, whatever other clocks show."""

    def judge(
        self,
        seen: Observation,
        child: Mapping[str, Any],
        cancel: CancelAction | None,
        *,
        usual: bool = False,
        advice: str = "",
        stop: CancelAction | None = None,
    ) -> Observation:
        """Return the observation of a silent object.

        `cancel`: how the object is stopped, None if it need not stop. The Operation ends without its controller only after `cancel` was
        sent; then `stop` is applied to the object. `usual`: healthy work is as silent, so only the message mentions the silence.
        """
        if self.last is None or seen.state.final or (seen.blocked is not None and cancel is None):
            return seen
        if cancel is not None and not _was_sent(cancel, child):
            return seen
        left = self.left if cancel is None else max(self.left, self.left_to_end)
        if left > timedelta(0):
            return replace(seen, recheck_after=min(left, seen.recheck_after or left))
        # Velero, Argo and VolSync write a status as soon as they see an object; none of them has another heartbeat that all objects show.
        seen_once = bool(child.get("status"))
        silent = (
            f"{self.object} has not been written since {rfc3339(self.last)}"
            if seen_once
            else f"{self.object} has no status, so no controller has seen it since {rfc3339(self.last)}"
        )
        if cancel is not None:
            message = f"{silent}, so its controller is taken for gone, and the Operation ends without it; {advice}"
            end = Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message, seen.outputs, seen.logs)
            return replace(end, stop=stop)
        if usual:
            note = f"{silent}: a long step is as silent, or its controller does not run"
            return replace(seen, message=f"{seen.message}; {note}" if seen.message else note)
        told = f" ({seen.message})" if seen.message else ""
        message = f"{silent}{told}; start its controller, or cancel the Operation"
        return replace(seen, reason=RunningReason.ENGINE_SILENT, message=message)


def _was_sent(cancel: CancelAction, child: Mapping[str, Any]) -> bool:
    deleting = (child.get("metadata") or {}).get("deletionTimestamp") is not None
    return deleting or isinstance(cancel, WaitForEnd)


def silence(request: EngineRequest, object_: str, now: datetime, *signs: datetime) -> Silence:
    """Return the silence of the controller, from the last write of the object and other signs of its life.

    A sign from the future is from a clock that differs from ours, and counts as now.
    """
    if request.written is None:
        return Silence(object_, None)
    last = max(min(sign, now) for sign in (request.written, *signs))
    patience = request.settings.engine_silence
    return Silence(object_, last, last + patience - now, (request.watched or now) + patience - now)


def last_write(stored: Mapping[str, Any], now: datetime) -> datetime:
    """Return when an object was last written, from its managedFields; `now` if they have no time.

    >>> from datetime import UTC
    >>> now = datetime(2031, 1, 1, tzinfo=UTC)
    >>> last_write({"metadata": {"managedFields": [{"time": "2030-01-01T00:00:00Z"}, {"time": "2030-06-01T00:00:00Z"}]}}, now).month
    6
    """
    metadata = stored.get("metadata") or {}
    times = [entry.get("time") for entry in metadata.get("managedFields") or () if isinstance(entry, Mapping)]
    moments = [
        from_rfc3339(text) for text in (*times, metadata.get("deletionTimestamp")) if isinstance(text, str) and text
    ]
    return min(max(moments, default=now), now)
