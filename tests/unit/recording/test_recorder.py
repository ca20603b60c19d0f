"""The content of a recorded reconcile, on the in-memory server."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from recorded import taped
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.recording import RecordedReconcile, Recording
from konverge.recording.blanks import Blanks
from konverge_testing import Lab

PASSWORD = "correct horse battery"  # what a Secret holds
EVERYTHING = kv.Controller.of(Widget).owns(CONFIG_MAP).watches(SECRET, to=lambda *_: ()).reads_live(SECRET)


async def copies_password(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Read caches and the server, own a part, and fail if the mode wants it."""
    ctx.cache(SECRET).list(found.namespace)
    ctx.cache(CONFIG_MAP).find(found.namespace, "part-0")
    secret = await ctx.live(SECRET).get(found.namespace, "target")
    await ctx.own(part(0, note=f"for {found.spec.mode}"))
    ctx.status.set_condition("Ready", True, "Built", "it is built")
    if found.spec.mode == "odd":
        raise KeyError(str(secret.get("data", "password", default="")))
    return kv.RequeueAfter(60)


async def recorded(lab: Lab, file: Path, **spec: Any) -> Recording:
    """Record the reconciles of one widget beside a Secret."""
    if spec.get("mode") == "odd":
        lab.expects(KeyError)
    await lab.create(SECRET.new("target", stringData={"password": PASSWORD}))
    tape = await taped(lab, file, EVERYTHING.reconciled_by(By(copies_password)))
    await lab.create(widget(**spec))
    await lab.settled()
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.settled()
    await lab.stop()
    return tape.read()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tape"


def last(recording: Recording) -> RecordedReconcile:
    return recording.reconciles[-1]


async def test_a_reconcile_has_its_cause_reads_writes_and_outcome(lab: Lab, file: Path) -> None:
    recording = await recorded(lab, file)
    first = recording.reconciles[0]
    assert (str(first.key), first.controller, first.outcome, first.delay) == (
        f"Widget {lab.namespace}/one",
        "widget",
        "RequeueAfter",
        60,
    )
    assert recording.data(first.object)["spec"] == {"parts": 0, "mode": "plain"}
    assert [(read.kind, read.operation, len(read.documents)) for read in first.reads] == [
        ("ConfigMap", "index", 0),
        ("Secret", "list", 1),
        ("ConfigMap", "get", 0),
        ("ConfigMap", "write", 0),
        ("Widget", "write", 1),  # before the status is sent
    ]
    wire = [(each.method, each.path.rpartition("/")[2], each.status) for each in first.exchanges]
    assert wire == [("GET", "target", 200), ("PATCH", "part-0", 201), ("PATCH", "status", 200)]
    assert recording.data(first.exchanges[1].body)["data"] == {"number": "0", "note": "for plain"}
    assert first.writes == (f"apply ConfigMap {lab.namespace}/part-0", "status")


async def test_an_error_has_its_text_and_traceback(lab: Lab, file: Path) -> None:
    failed = last(await recorded(lab, file, mode="odd"))
    assert (failed.outcome, failed.failed) == ("KeyError", True)
    assert "copies_password" in failed.traceback


async def test_secret_values_are_nowhere_in_the_file(lab: Lab, file: Path) -> None:
    recording = await recorded(lab, file, mode="odd")
    text = file.read_text()
    assert PASSWORD not in text
    assert "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5" not in text, "base64 of the password"
    read = recording.data(last(recording).exchanges[0].response)["data"]["password"]
    assert read in last(recording).error, "the same value has the same placeholder"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_discovery_and_events_are_recorded(lab: Lab, file: Path) -> None:
    recording = await recorded(lab, file)
    assert "/apis/tests.konverge.dev/v1" in recording.served
    assert [(event.about, event.reason) for event in recording.events] == [(f"Widget {lab.namespace}/one", "Built")]
    assert (recording.header.operator, recording.header.namespace) == ("taped", lab.namespace)


async def test_own_fields_of_a_cached_child_are_recorded(lab: Lab, file: Path) -> None:
    recording = await recorded(lab, file)
    (child,) = next(read.documents for read in last(recording).reads if read.operation == "write")
    assert [owner.manager for owner in recording.documents[child].owned] == ["taped"]


def nested(depth: int) -> Any:
    return {} if not depth else {"in": nested(depth - 1)}


async def half_a_pair(_found: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
    raise ValueError("half of a pair: \ud83d")


async def deep(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    text = json.dumps({"kind": "Secret", "data": nested(60)})
    await ctx.client.raw("POST", f"/api/v1/namespaces/{found.namespace}/configmaps", body=text.encode() * 2)
    return kv.Done()


@pytest.mark.parametrize(
    ("reconcile", "error"), [(half_a_pair, ValueError), (deep, kv.ApiError)], ids=["surrogate", "deep"]
)
async def test_an_odd_value_is_recorded_without_harm(
    lab: Lab, file: Path, caplog: pytest.LogCaptureFixture, reconcile: Any, error: type[Exception]
) -> None:
    caplog.set_level("CRITICAL", logger="konverge.controller")  # pytest-xdist cannot send a log with half of a pair
    lab.expects(error)
    tape = await taped(lab, file, EVERYTHING.reconciled_by(By(reconcile)))
    await lab.create(widget())
    await lab.settled()
    await lab.stop()
    assert issubclass(error, ValueError) == (last(tape.read()).outcome == "ValueError")
    assert last(tape.read()).failed


async def test_an_exception_of_the_recording_fails_no_reconcile(
    lab: Lab, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **_kw: Any) -> bytes:
        raise RecursionError("too deep")

    monkeypatch.setattr(Blanks, "body", broken)
    recording = await recorded(lab, file)
    assert {each.outcome for each in recording.reconciles} == {"RequeueAfter"}
    assert last(recording).object == ""


async def test_an_unchanged_list_is_recorded_once(lab: Lab, file: Path) -> None:
    async def lists(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.cache(CONFIG_MAP).list(found.namespace)
        return kv.RequeueAfter(10)

    for number in range(20):
        await lab.create(part(number))
    tape = await taped(lab, file, EVERYTHING.reconciled_by(By(lists)))
    await lab.create(widget())
    await asyncio.sleep(35)
    await lab.stop()
    recording = tape.read()
    lines = file.read_bytes().splitlines()
    for number in range(20):
        assert sum(f'"part-{number}"'.encode() in line for line in lines) == 1
    reads = [read for each in recording.reconciles for read in each.reads if read.operation == "list"]
    assert len(reads) >= 4
    assert len({read.many for read in reads}) == 1
    assert len(recording.objects(reads[0])) == 20
