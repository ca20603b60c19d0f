"""All runs of a measuring session: the selected runs, each stored as it ends, disturbed runs repeated, and the report at the end.

Guarantees: each record is on disk before the next run begins, so that `--into` continues an interrupted campaign.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peers import building, machine, plan, report, targets
from peers.contestants import BY_NAME, CONTESTANTS, Contestant
from peers.driving import perform
from peers.plan import Run, Session
from peers.publish import publish, published

from konverge.clock import wall_clock

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "guide" / "benchmark.md"


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of a campaign."""

    sessions: tuple[Session, ...]
    contestants: tuple[Contestant, ...]
    repeats: int
    into: Path
    publish: bool
    published: bool
    measure: bool
    quick: bool


def options(environ: Mapping[str, str]) -> Options:
    """Read BENCH_QUICK and PEERS; exits with a message if they are invalid."""
    quick = environ.get("BENCH_QUICK") == "1"
    known = {session.name: session for session in (plan.QUICK if quick else plan.SESSIONS)}
    parser = argparse.ArgumentParser(prog="PEERS=...", description="What `make bench ONLY=peers` runs.")
    parser.add_argument("--sessions", default=",".join(known), help=f"of: {', '.join(known)}")
    parser.add_argument("--contestants", default=",".join(BY_NAME), help=f"of: {', '.join(BY_NAME)}")
    parser.add_argument(
        "--server", choices=("real", "standin", "both"), default="both", help="of the sessions, those on this server"
    )
    parser.add_argument("--runs", type=int, help="runs of each contestant in each session")
    parser.add_argument(
        "--no-load", action="store_true", help="leave out the open loops, which take minutes in each run"
    )
    parser.add_argument("--repeats", type=int, default=0 if quick else 3, help="how often a disturbed run is repeated")
    parser.add_argument("--into", type=Path, help="go on with a campaign: the folder that it was kept in")
    parser.add_argument("--publish", action="store_true", help="put tables and plots into docs/guide/benchmark.md")
    parser.add_argument(
        "--published", action="store_true", help="count the runs that the page has already, and make only the others"
    )
    parser.add_argument("--report", action="store_true", help="make no run: tables and plots of those that are there")
    told = parser.parse_args(shlex.split(environ.get("PEERS", "")))
    for names, table in ((told.sessions, known), (told.contestants, BY_NAME)):
        if unknown := [name for name in names.split(",") if name not in table]:
            parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(table)}")
    servers = {"real": (False,), "standin": (True,), "both": (False, True)}[told.server]
    sessions = tuple(
        each for name, each in known.items() if name in told.sessions.split(",") and each.stand_in in servers
    )
    stamp = wall_clock().strftime("%Y-%m-%d-%H%M%S") + ("-quick" if quick else "")
    if told.no_load:
        sessions = tuple(replace(each, rates=()) for each in sessions)
    return Options(
        sessions=tuple(replace(each, runs=told.runs) for each in sessions) if told.runs else sessions,
        contestants=tuple(each for each in CONTESTANTS if each.name in told.contestants.split(",")),
        repeats=told.repeats,
        into=told.into or ROOT / "build" / "peers" / stamp,
        publish=told.publish,
        published=told.published,
        measure=not told.report,
        quick=quick,
    )


def campaign(chosen: Options) -> list[dict[str, Any]]:
    """Run everything that has no record yet; returns the rows, none if no run was necessary."""
    needed = {each.made for each in chosen.contestants} if chosen.measure else set()
    if any(each.stand_in for each in chosen.sessions) and chosen.measure:
        needed.add(building.STAND_IN)
    programs = building.programs(needed, os.environ, say)
    sessions = [
        each for each in chosen.sessions if not (chosen.measure and each.stand_in) or building.STAND_IN in programs
    ]
    able = tuple(each for each in chosen.contestants if not chosen.measure or each.made in programs)
    raw = chosen.into / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    about = chosen.into / "about.json"
    now = _about()
    if not about.exists():
        about.write_text(json.dumps(now, indent=1))
    earlier = published(PAGE) if chosen.published else {}
    records: list[dict[str, Any]] = []
    fresh = 0
    try:
        for run in plan.runs(sessions, able):
            # One run may have several files: the disturbed attempts, and the attempt that counts.
            kept = [json.loads(path.read_text()) for path in sorted(raw.glob(f"{run.name}.*.json"))]
            kept = kept or earlier.get((run.session.name, run.contestant.name, run.number + 1), [])
            if not kept and chosen.measure:
                kept, fresh = _until_quiet(run, programs, raw, chosen.repeats, of=now), fresh + 1
            records += kept
    except KeyboardInterrupt:
        say(f"interrupted; go on with PEERS='{'--published ' if chosen.published else ''}--into {chosen.into}'")
    # The page keeps the rows that it has, even if this campaign was interrupted or has other sessions.
    known = {_place(record) for record in records}
    records += [record for place, item in earlier.items() if place not in known for record in item]
    return (
        _told(records, chosen, json.loads(about.read_text()))
        if records and (fresh or chosen.publish or not chosen.measure)
        else []
    )


def _place(record: Mapping[str, Any]) -> tuple[str, str, int]:
    return record["session"], record["contestant"], record["run"]


def say(words: str) -> None:
    print(words, flush=True)


def _until_quiet(
    run: Run, programs: Mapping[str, Path], raw: Path, repeats: int, *, of: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Carry a run out, again while others used the machine; the last attempt counts. `of` has the date and commit of the record."""
    attempts: list[dict[str, Any]] = []
    for attempt in range(repeats + 1):
        record = _interruptible(run, programs) | {name: of[name] for name in ("date", "commit")}
        attempts.append(record)
        say(f"{run.name}: {_line(record)}")
        if record.get("foreign", 0.0) <= report.QUIET:
            break
        record["repeated"] = attempt < repeats
    for number, record in enumerate(attempts, start=1):
        (raw / f"{run.name}.{number}.json").write_text(json.dumps(record))
    return attempts


def _interruptible(run: Run, programs: Mapping[str, Path]) -> dict[str, Any]:
    """Carry a run out so that SIGTERM, like Ctrl-C, ends its processes before this process."""

    async def performed() -> dict[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await perform(run, programs)

    try:
        return asyncio.run(performed())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _line(record: Mapping[str, Any]) -> str:
    """One run in one line, for the terminal."""
    cold = record.get("phases", {}).get("cold", {})
    words = [f"cold start {cold['seconds']:.2f} s, {cold['peak_mib']:.0f} MiB"] if cold else []
    words.append(f"foreign CPU {record.get('foreign', 0.0):.1%}")
    return ", ".join([*words, *([f"FAILED: {record['failed']}"] if "failed" in record else [])])


def _about() -> dict[str, Any]:
    """The date, the machine and the commit of the campaign."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = " with changes that are not committed" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {"date": wall_clock().strftime("%Y-%m-%d"), "commit": git("rev-parse", "--short", "HEAD") + changed} | (
        machine.describe()
    )


def _shown(chosen: Options) -> Sequence[Session]:
    """All sessions: those without a run have no table."""
    return plan.QUICK if chosen.quick else plan.SESSIONS


def _sections(records: Sequence[dict[str, Any]], chosen: Options) -> Iterator[str]:
    if (verdicts := targets.verdicts(records, "")) and not chosen.quick:
        yield f"### Targets\n\n{targets.table(verdicts)}"
    for session in _shown(chosen):
        if short := report.summary(records, session):
            yield f"### {session.title}\n\n{short}"
    for session in _shown(chosen):
        if table := report.session_table(records, session):
            yield f"### All figures: {session.title}\n\n{table}"
    yield f"### Versions and settings\n\n{report.settings_table(records)}"


def _made(records: Sequence[dict[str, Any]]) -> str:
    """Dates and commits of the runs: mostly one commit, more if a campaign continued after a change."""
    days: dict[str, list[str]] = {}
    for record in report.counted(records):
        commits = days.setdefault(record["date"], [])
        if record["commit"] not in commits:
            commits.append(record["commit"])
    return "; ".join(f"{day}, commit{'s' * (len(commits) > 1)} {', '.join(commits)}" for day, commits in days.items())


def _told(records: list[dict[str, Any]], chosen: Options, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write report and plots, print the tables, and return the rows."""
    servers = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in record["server"].items())
        for record in records
        if "server" in record
    )
    ended = sum(record.get("ended_watches", 0) for record in report.counted(records))
    noisy = len(report.disturbed(records))
    facts = [
        "Quick: small numbers, one run, whatever else the machine did. They show that everything works, not how fast." if chosen.quick else "",
        f"{_made(records)}. {about['cpu']}, {about['cpus']} cores, {about['memory_gib']} GiB, Linux {about['kernel']}, "
        f"governor {about['governor']}; servers on the same cores. " + "; ".join(servers) + ".",
        (f"Runs that count with more than {report.QUIET:.0%} of foreign CPU: {noisy} of {len(report.counted(records))}. "
        f"Watches that the server ended for being slow (each observer then continues at its last version): {ended}."),
    ]  # fmt: skip
    text = "\n\n".join([*filter(None, facts), *_sections(records, chosen)])
    (chosen.into / "report.md").write_text(text)
    say(f"\n{text}")
    plots = {name: svg for session in _shown(chosen) for name, svg in report.plots(records, session).items()}
    for name, svg in plots.items():
        (chosen.into / name).write_text(svg)
    say(f"raw samples, report and plots are in {chosen.into}")
    if chosen.publish:
        publish(PAGE, text, plots, report.counted(records))
    how = f"{'QUICK, ' if chosen.quick else ''}{about['cpus']} cores shared with the servers, {_made(records)}"
    rows = [row for session in _shown(chosen) for row in report.rows(records, session, how)]
    return rows if chosen.quick else rows + targets.verdicts(records, how)
