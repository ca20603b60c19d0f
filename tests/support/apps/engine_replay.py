"""Recordings of engines, replayed through their translation as the Operation's reconciler would read them.

One Operation per object: the object that is created first under the name; later objects of the name have another UID. Each watch event of
the object leads to one `observe`, and so does the end of a requested delay. Its DELETED event leads to `lost`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from recordings import Json, lines

from konverge.clock import from_rfc3339
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations.engines.engine import (
    Engine,
    EngineRequest,
    ObjectKey,
    ObjectRef,
    Observation,
    Related,
    Target,
)
from konverge.reconcilers.apps.operations.settings import OperationSettings

MADE = datetime(2030, 1, 1, tzinfo=UTC)
NAMESPACE_UID = "namespace-uid"


def request_of(
    type_: str = "Backup",
    related: Mapping[ObjectRef, Json | None] | None = None,
    *,
    namespace: str = "team",
    uid: str = "uid-1",
    settings: OperationSettings | None = None,
    **parameters: Any,
) -> EngineRequest:
    return EngineRequest(
        operation=ObjectKey(namespace, "nightly"),
        uid=uid,
        created=MADE,
        type=type_,
        parameters=parameters,
        target=Target(namespace, "shop", "target-uid", "shop", "shop"),
        settings=settings or OperationSettings(),
        related=Related(
            {ObjectRef(NAMESPACE, "", namespace, live=True): {"metadata": {"uid": NAMESPACE_UID}}, **(related or {})}
        ),
    )


def _folder(engine: Engine) -> str:
    return {"workflow": "argo"}.get(engine.name, engine.name)


@dataclass(frozen=True)
class Seen:
    """One observation, and the time of the line that led to it."""

    at: float
    observation: Observation

    def __str__(self) -> str:
        found = self.observation
        state, blocked = found.state.value, f" {found.blocked.reason}" if found.blocked else ""
        return f"{state}/{found.reason}{blocked}"


@dataclass(frozen=True)
class EngineReplay:
    """The observations of one object of a recording. `cancel_at`: the step that cancels the Operation."""

    engine: Engine
    recording: str
    which: str
    """`Kind/name`."""
    nth: int = 0
    """Of several objects of that name: the place of this one."""
    cancel_at: str = ""
    request: EngineRequest = field(default_factory=request_of)

    def seen(self) -> list[Seen]:
        """Return every observation up to the end of the recording, including observations after the end of the Operation."""
        return list(self._observe())

    def states(self) -> list[str]:
        """Return the states of the Operation without repetitions, up to its end."""
        found: list[str] = []
        for seen in self.until_end():
            if not found or found[-1] != str(seen):
                found.append(str(seen))
        return found

    def until_end(self) -> list[Seen]:
        found = []
        for seen in self._observe():
            found.append(seen)
            if seen.observation.state.final:
                break
        return found

    @property
    def end(self) -> Observation:
        """The last observation of the Operation."""
        return self.until_end()[-1].observation

    def _observe(self) -> Iterator[Seen]:
        engine, asked, child = self.engine, False, None
        recorded = lines(_folder(self.engine), self.recording)
        uids = list(dict.fromkeys(line.object["metadata"]["uid"] for line in recorded if line.is_of(self.which)))
        uid = uids[self.nth]
        first = next(line for line in recorded if line.is_of(self.which) and line.object["metadata"]["uid"] == uid)
        began = from_rfc3339(first.object["metadata"]["creationTimestamp"])
        zero = began - timedelta(seconds=first.at)
        gone = False
        for place, line in enumerate(recorded):
            if self.cancel_at and self.cancel_at in line.step:
                asked = True
            ours = line.is_of(self.which) and line.object["metadata"]["uid"] == uid
            if ours and line.type == "DELETED":
                gone = True
                yield Seen(line.at, engine.lost(self.request, asked_to_cancel=asked))
            elif ours:
                child = line.object
            if child is None or gone or not (ours or asked):
                continue
            until = recorded[place + 1].at if place + 1 < len(recorded) else line.at + 1
            yield from self._looks(child, asked, began, zero, line.at, until)

    def _looks(
        self, child: Json, asked: bool, began: datetime, zero: datetime, at: float, until: float
    ) -> Iterator[Seen]:
        """Observe now, and again after each delay that an observation requests before the next line."""
        while True:
            now = zero + timedelta(seconds=at)
            found = self.engine.observe(self.request, child, asked_to_cancel=asked, started=began, now=now)
            yield Seen(at, found)
            if found.recheck_after is None or at + found.recheck_after.total_seconds() > until:
                return
            at += max(found.recheck_after.total_seconds(), 0.001)
