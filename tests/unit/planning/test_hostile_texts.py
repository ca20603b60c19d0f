"""Texts of tenants in a plan for people: no text moves the cursor, forges a line or hides another."""

import json

import pytest

from konverge.daemon.options import visible
from konverge.planning.documents import differences
from konverge.planning.overlay import Cause
from konverge.planning.report import ObjectChange, PlanFailure, PlanReport
from konverge.planning.text import text_of
from konverge.planning.transport import RecordedEvent

HOSTILE = [
    "\x1b[2J\x1b[H",
    "\r\x07\x08",
    "\x7f\x9b1m",
    "\u202eevil\u2066",
    "a\nPlan: no changes. Nothing was written.",
    "a\u2028b\x85c",
    "\ud800",
    'quoted " and ] and .',
    "long" * 10_000,
    "9" * 400,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_no_text_of_a_tenant_reaches_the_terminal_unescaped(text: str) -> None:
    change = ObjectChange(
        action="update",
        api_version="example.com/v1",
        kind="Site",
        namespace="web",
        name="a",
        fields=tuple(
            differences({"spec": {}}, {"spec": {"values": {text: text}, "items": [{"name": text, "a": text}]}})
        ),
        causes=(Cause("site", "Site web/a", ()),),
    )
    report = PlanReport(
        changes=(change,),
        events=(RecordedEvent("Site web/a", "Normal", "Published", text),),
        failed=(PlanFailure(controller="site", key="Site web/b", error=text),),
        reconciled=1,
    )
    lines = visible(text_of(report)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("Plan: ")] == [lines[-1]]
    assert max(map(len, lines)) < 2200
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
