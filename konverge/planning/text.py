"""A report for people. Pure; the command escapes what is not printable (`konverge.daemon.options.print_text`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from konverge.planning.documents import Difference
from konverge.planning.overlay import Cause
from konverge.planning.report import ObjectChange, PlanReport

__all__ = ["field_text", "text_of"]

_SIGNS: Final = {"create": "+", "update": "~", "replace": "-/+", "delete": "-", "write": "~"}
_WORDS: Final = {
    "create": "would be created",
    "update": "would be changed",
    "replace": "would be deleted and created again",
    "delete": "would be deleted",
    "write": "would be written (its stored state may not be read)",
}
_LONGEST: Final = 200
"""Characters of a value; `-o json` shows the whole value."""


def text_of(report: PlanReport) -> str:
    """Return the report as text, with a summary as its last line."""
    blocks = ["\n".join(_change(change)) for change in report.changes]
    for title, lines in (
        (
            "Events that would be recorded:",
            [f"{e.type} {e.reason} about {e.about}: {_cut(e.note)}" for e in report.events],
        ),
        ("Not tried:", [f"{n.controller}, {_count(len(n.keys), 'object')}: calls {n.calls}" for n in report.not_tried]),
        (
            "Failed:",
            [
                f"{' of '.join(filter(None, (f.controller, f.key)))}: {_cut(f.error, 10 * _LONGEST)}"
                for f in report.failed
            ],
        ),
    ):
        if lines:
            blocks.append("\n  ".join((title, *(line.replace("\n", "\n    ") for line in lines))))
    return "\n\n".join((*blocks, _summary(report)))


def _change(change: ObjectChange) -> Iterator[str]:
    path = "/".join(filter(None, (change.namespace, change.name)))
    yield f"{_SIGNS[change.action]} {change.kind} {path} ({change.api_version}) {_WORDS[change.action]}"
    for cause in change.causes:
        yield f"    by {_cause(cause)}"
    for difference in change.fields:
        yield f"      {field_text(difference)}"


def _cause(cause: Cause) -> str:
    because = f" (because: {'; '.join(cause.reasons)})" if cause.reasons else ""
    return f"{cause.controller}, which reconciles {cause.key}{because}"


def field_text(change: Difference) -> str:
    """Return the line of one difference."""
    path = _cut(change.path)
    if change.added:
        return f"+ {path}: {_value(change.after)}"
    if change.removed:
        return f"- {path}: {_value(change.before)}"
    return f"~ {path}: {_value(change.before)} -> {_value(change.after)}"


def _value(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _summary(report: PlanReport) -> str:
    """Return the last line."""
    actions = Counter(change.action for change in report.changes)
    parts = [
        f"{actions['create']} to create",
        f"{actions['update'] + actions['replace'] + actions['write']} to change",
        f"{actions['delete']} to delete",
    ]
    changes = ", ".join(parts) if report.changes else "no changes"
    more = [_count(len(report.events), "Event")] if report.events else []
    more += [f"{len(report.failed)} failed"] if report.failed else []
    more += [f"{_count(sum(len(n.keys) for n in report.not_tried), 'object')} not tried"] if report.not_tried else []
    tail = f"; {'; '.join(more)}" if more else ""
    return f"Plan: {changes}{tail}. {_count(report.reconciled, 'object')} reconciled. Nothing was written."
