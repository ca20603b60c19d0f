"""Disturbed runs are repeated, and measurements are on disk before the next run begins."""

import json
from pathlib import Path
from typing import Any

import pytest
from peers import campaign, plan, publish
from peers.contestants import BY_NAME
from peers.plan import Run
from peers.report import counted, disturbed

RUN = Run(plan.QUICK[0], BY_NAME["konverge"], 0)


def measuring(monkeypatch: pytest.MonkeyPatch, *foreign: float) -> list[float]:
    """Give the following runs so much foreign CPU time; returns the remaining values."""
    left = list(foreign)

    def measured(run: Run, _programs: Any) -> dict[str, Any]:
        return {"session": run.session.name, "contestant": run.contestant.name, "run": 1, "foreign": left.pop(0)}

    monkeypatch.setattr(campaign, "_interruptible", measured)
    return left


@pytest.mark.parametrize(
    ("foreign", "repeats", "made", "noisy"),
    [
        ((0.01, 0.9), 3, 1, 0),
        ((0.2, 0.06, 0.04, 0.9), 3, 3, 0),
        ((0.2, 0.3, 0.4), 2, 3, 1),
        ((0.2, 0.9), 0, 1, 1),
    ],
    ids=["quiet at once", "quiet in the end", "never quiet", "no repeats"],
)
def test_disturbed_run_is_repeated_until_quiet_and_the_last_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, foreign: tuple[float, ...], repeats: int, made: int, noisy: int
) -> None:
    left = measuring(monkeypatch, *foreign)
    records = campaign._until_quiet(RUN, {}, tmp_path, repeats, of={"date": "2030-01-01", "commit": "abc", "cpu": "x"})
    assert len(records) == made == len(foreign) - len(left)
    assert [record["foreign"] for record in counted(records)] == [foreign[made - 1]]
    assert len(disturbed(records)) == noisy
    assert {(record["date"], record["commit"]) for record in records} == {("2030-01-01", "abc")}
    kept = [json.loads(path.read_text()) for path in sorted(tmp_path.glob(f"{RUN.name}.*.json"))]
    assert kept == records


def whole(session: str) -> dict[str, Any]:
    cold = {"seconds": 4.0, "synced": 0.5, "rate": 600.0, "cpu_ms_per_object": 1.0, "errors": 0, "peak_mib": 40.0}
    made = {"session": session, "contestant": "konverge", "run": 1, "foreign": 0.0, "date": "2030-01-01"}
    return {**made, "commit": "abc", "phases": {"cold": cold}, "versions": {}, "settings": {}}


def test_existing_results_can_be_shown_without_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    left = measuring(monkeypatch, 0.0)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "base-konverge-1.1.json").write_text(json.dumps(whole("base")))
    chosen = campaign.options(
        {"PEERS": f"--sessions base --contestants konverge,bare-loop --runs 2 --report --into {tmp_path}"}
    )
    rows = campaign.campaign(chosen)
    assert left == [0.0]
    assert "base, konverge: cold start: all converged" in {row["name"] for row in rows}
    assert "2030-01-01, commit abc" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("interrupted", [False, True])
def test_results_on_the_page_stay_on_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, interrupted: bool) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{publish.BEGIN}{publish.END}")
    publish.publish(page, "", {}, [whole("large"), whole("base")])
    monkeypatch.setattr(campaign, "PAGE", page)

    def measured(_run: Run, _programs: Any) -> dict[str, Any]:
        if interrupted:
            raise KeyboardInterrupt
        return whole("owners")

    monkeypatch.setattr(campaign, "_interruptible", measured)
    told = f"--sessions owners --contestants konverge --runs 1 --published --publish --into {tmp_path}"
    campaign.campaign(campaign.options({"PEERS": told}))
    found = {session for session, _, _ in publish.published(page)}
    assert found == {"large", "base"} | (set() if interrupted else {"owners"})
    assert "20,000 objects, 10 at once" in page.read_text()
