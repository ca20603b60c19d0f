"""A watch of the planned cluster: it sends planned changes, and nothing that happens on the server."""

from __future__ import annotations

import msgspec

from konverge.client.requests import JSON, Request
from konverge.planning.overlay import Overlay, OverlayEvent
from konverge.planning.targets import Selected, in_form_of

__all__ = ["PlannedWatch"]

_JSON_OF = msgspec.json.Encoder().encode


class PlannedWatch:
    """An open stream; `read` waits for the next planned change of a selected object."""

    status = 200
    content_type = JSON
    retry_after: float | None = None

    def __init__(self, overlay: Overlay, request: Request, selected: Selected) -> None:
        self._overlay = overlay
        self._request = request
        self._selected = selected
        self._position = 0
        version = dict(request.params).get("resourceVersion", "")
        self._since = int(version) if version.isdecimal() else 0
        self.waiting = False
        """Whether the reader has taken every event, and waits for the next event."""

    @property
    def caught_up(self) -> bool:
        """Whether the reader has handled every planned event."""
        return self.waiting and self._position == len(self._overlay.events)

    async def read(self) -> bytes:
        """Return the lines of the next events."""
        while True:
            events = self._overlay.events[self._position :]
            self._position += len(events)
            lines = b"".join(self._line(event) for event in events if event.version > self._since)
            if lines:
                return lines
            self.waiting = True
            try:
                await self._overlay.news.wait()
            finally:
                self.waiting = False

    def _line(self, event: OverlayEvent) -> bytes:
        if not self._selected.target.covers(event.object_id):
            return b""
        was, takes = self._selected.takes(event.before), self._selected.takes(event.after)
        if not was and not takes:
            return b""
        type_ = "DELETED" if not takes else "MODIFIED" if was else "ADDED"
        document = in_form_of(event.last, self._request, self._selected.target)
        return _JSON_OF({"type": type_, "object": document}) + b"\n"
