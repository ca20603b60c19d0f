"""A replayed reconcile beside the recorded one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from konverge.client.targets import target_of
from konverge.planning.documents import Difference, differences
from konverge.planning.report import decided_part
from konverge.planning.text import field_text
from konverge.recording import Exchange, RecordedReconcile, Recording
from konverge.recording.blanks import is_placeholder
from konverge_testing.replay.cluster import Sent
from konverge_testing.replay.runs import Replayed

__all__ = ["Divergence", "ReplayReport", "compare", "text_of"]

_WORDS = {
    "absent": "recorded, and not sent any more",
    "new": "sent, and not recorded",
    "changed": "sent with other values",
}
_SIGNS = {"absent": "-", "new": "+", "changed": "~"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One write that differs: `absent`, `new` or `changed`. `position` counts the requests of the replay, from 1."""

    what: str
    method: str
    path: str
    position: int
    fields: tuple[Difference, ...] = ()

    @property
    def title(self) -> str:
        """The write in words."""
        target = target_of(self.path)
        if target is None:
            return f"{self.method} {self.path}"
        place = "/".join(filter(None, (target.namespace, target.name)))
        resource = "/".join(filter(None, (target.plural, target.subresource)))
        return f"{self.method} {resource} {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The replay of one reconcile. True if it differs from the record."""

    reconcile: RecordedReconcile
    replayed: Replayed
    divergences: tuple[Divergence, ...]

    @property
    def same_outcome(self) -> bool:
        """Whether the reconcile ended as recorded; texts of errors are not compared."""
        recorded = self.reconcile
        return (recorded.outcome, recorded.delay) == (self.replayed.outcome, self.replayed.delay)

    def __bool__(self) -> bool:
        return bool(self.divergences) or not self.same_outcome

    @property
    def exit_code(self) -> int:
        """2 if the replay differs from the record, else 0."""
        return 2 if self else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        recorded, replayed = self.reconcile, self.replayed
        return {
            "reconcile": recorded.number,
            "controller": recorded.controller,
            "key": str(recorded.key),
            "recorded": {"outcome": recorded.outcome, "delay": recorded.delay, "error": recorded.error},
            "replayed": {"outcome": replayed.outcome, "delay": replayed.delay, "error": replayed.error},
            "divergences": [
                {
                    "what": each.what,
                    "write": each.title,
                    "position": each.position,
                    "fields": [
                        {"path": field.path, "recorded": field.before, "replayed": field.after} for field in each.fields
                    ],
                }
                for each in self.divergences
            ],
            "unknownReads": list(replayed.unknown_reads),
        }


def compare(recording: Recording, reconcile: RecordedReconcile, replayed: Replayed) -> ReplayReport:
    """Return the report of a replay: the writes that differ, in their order."""
    return ReplayReport(reconcile=reconcile, replayed=replayed, divergences=tuple(_divergences(recording, replayed)))


def _divergences(recording: Recording, replayed: Replayed) -> Iterator[Divergence]:
    for position, sent in enumerate(replayed.sent, 1):
        if sent.method in {"GET", "HEAD"} or (sent.recorded is None and not sent.changes):
            continue
        where: dict[str, Any] = {"method": sent.method, "path": sent.path, "position": position}
        if sent.recorded is None:
            yield Divergence(what="new", fields=tuple(_changed_fields(sent)), **where)
            continue
        before = recording.data(sent.recorded.body)
        fields = tuple(differences(before, _with_placeholders(before, sent.body)))
        if fields:
            yield Divergence(what="changed", fields=fields, **where)
    last = len(replayed.sent) + 1
    for exchange in _writes(replayed.left):
        body = recording.data(exchange.body)
        fields = tuple(differences(body, {})) if isinstance(body, dict) else ()
        yield Divergence(what="absent", method=exchange.method, path=exchange.path, position=last, fields=fields)


def _changed_fields(sent: Sent) -> Iterator[Difference]:
    """Yield the changes of the object by a write that the record lacks; for an object that was not read, the sent fields."""
    if sent.before is None and sent.after is None:
        return differences({}, sent.body)
    return differences(decided_part(sent.before), decided_part(sent.after))


def _writes(exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
    return (each for each in exchanges if each.writes)


def _with_placeholders(recorded: Any, sent: Any) -> Any:
    """Return a sent body with the recorded placeholder in place of a value that the recording blanked."""
    if is_placeholder(recorded) and isinstance(sent, str):
        return recorded
    if isinstance(recorded, dict) and isinstance(sent, dict):
        return {name: _with_placeholders(recorded.get(name), member) for name, member in sent.items()}
    if isinstance(recorded, list) and isinstance(sent, list) and len(recorded) == len(sent):
        return [_with_placeholders(*pair) for pair in zip(recorded, sent, strict=True)]
    return sent


def text_of(report: ReplayReport) -> str:
    """Return the report as text, with a summary as its last line."""
    recorded, replayed = report.reconcile, report.replayed
    lines = [
        f"Reconcile {recorded.number} of {recorded.key} by {recorded.controller}, recorded {recorded.began}",
        f"  because of: {'; '.join(recorded.reasons) or 'no recorded reason'}",
        f"  recorded: {_ending(recorded.outcome, recorded.delay, recorded.error)}",
        f"  replayed: {_ending(replayed.outcome, replayed.delay, replayed.error)}",
    ]
    if replayed.traceback:
        lines += [f"    {line}" for line in replayed.traceback.splitlines()]
    for divergence in report.divergences:
        lines += ["", f"{_SIGNS[divergence.what]} {divergence.title}: {_WORDS[divergence.what]}"]
        lines += [f"      {field_text(field)}" for field in divergence.fields]
    if replayed.unknown_reads:
        lines += ["", "Cache reads that the record lacks, so that objects may be missing:"]
        lines += [f"  {read}" for read in replayed.unknown_reads]
    return "\n".join([*lines, "", _summary(report)])


def _ending(outcome: str, delay: float | None, error: str) -> str:
    return f"{outcome}{f' {delay:g} s' if delay is not None else ''}{f': {error}' if error else ''}"


def _summary(report: ReplayReport) -> str:
    requests = len(report.replayed.sent)
    count = f"{requests} request{'' if requests == 1 else 's'}"
    ending = "the same outcome" if report.same_outcome else "another outcome"
    if not report.divergences:
        return f"Replay: {ending}, {count}, the recorded writes. Nothing was sent."
    first = report.divergences[0]
    number = len(report.divergences)
    writes = f"{number} write{'' if number == 1 else 's'}"
    return f"Replay: {ending}, {count}; {writes} differ, the first at request {first.position}: {first.title}. Nothing was sent."
