"""`konverge replay`: a recorded reconcile, run again in virtual time, or written as a test."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from konverge.daemon.options import (
    chosen_build,
    load_settings,
    output_option,
    print_json,
    print_text,
    settings_options_without,
    target_argument,
)
from konverge.daemon.plan import DETAILED, DetailedCommand, filling
from konverge.errors import UsageError

if TYPE_CHECKING:
    from konverge.recording import RecordedReconcile, Recording
    from konverge_testing.replay.comparison import ReplayReport

__all__ = ["replay_command"]

_UNUSED = ("kubeconfig", "context", "namespace", "metrics", "health", "debug", "drain", "sharding")
"""Flags of settings that change nothing in a replay."""


@click.command("replay", cls=DetailedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@target_argument
@click.option("--key", metavar="[KIND/][NAMESPACE/]NAME", default="", help="Only the reconciles of this object.")
@click.option(
    "--reconcile", "number", metavar="N", type=int, default=None, help="This reconcile; --list shows the numbers."
)
@click.option("--list", "lists", is_flag=True, help="List the recorded reconciles, and replay none.")
@click.option(
    "--stop", metavar="N", type=int, default=None, help="Reconcile N, with the debugger right before the reconciler."
)
@click.option(
    "--as-test",
    "test",
    metavar="FILE",
    default=None,
    help="Write a test that fails while the reconcile ends as recorded.",
)
@click.option(
    DETAILED, "detailed", is_flag=True, help="End with 0 for the same, 2 for another result, and 1 for any error."
)
@output_option("text", "json")
@settings_options_without(*_UNUSED)
def replay_command(
    recording: Path,
    target: str | None,
    key: str,
    number: int | None,
    lists: bool,
    stop: int | None,
    test: str | None,
    detailed: bool,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run a recorded reconcile again, in virtual time, without a cluster.

    RECORDING is a file that KONVERGE_RECORD=FILE wrote. Without a choice the last reconcile that failed is replayed, else the last. Without
    MODULE:BUILD the controllers of the installed families run. Reads and responses are as recorded; the result shows the writes that
    differ from the record.
    """
    from konverge.recording import read_recording

    tape = read_recording(recording)
    chosen = [each for each in tape.reconciles if _names(each, key)]
    if lists:
        _print_list(chosen, output)
        return
    entry = _entry(chosen, recording, stop if number is None else number)
    if test is not None:
        _write_test(tape, entry, target, Path(test))
        return
    if stop is not None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--stop opens the debugger, and this is no terminal")
    report = _replayed(tape, entry, target, file, assignments, flags, stop=stop is not None)
    if output == "json":
        print_json(report.to_dict())
    else:
        from konverge_testing.replay.comparison import text_of

        print_text(text_of(report))
    if detailed:
        click.get_current_context().exit(report.exit_code)


def _replayed(
    tape: Recording,
    entry: RecordedReconcile,
    target: str | None,
    file: str | None,
    assignments: tuple[str, ...],
    flags: dict[str, Any],
    *,
    stop: bool,
) -> ReplayReport:
    from konverge.daemon import logs
    from konverge_testing.loop import VirtualTimeLoop
    from konverge_testing.replay.comparison import compare
    from konverge_testing.replay.runs import replay

    settings = load_settings(target, file, assignments, flags).settings
    _, build = chosen_build(target)
    logs.configure(level=flags.get("log_level") or "error", form=settings.log_format)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return compare(tape, entry, runner.run(replay(tape, entry, filling(build, settings), stop=stop)))


def _names(entry: RecordedReconcile, key: str) -> bool:
    """Return whether a key on the command line, with or without kind and namespace, names the object of a reconcile."""
    parts = [part.lower() for part in key.split("/") if part]
    own = [part.lower() for part in (entry.key.kind, entry.key.namespace, entry.key.name) if part]
    kindless = own[1:]
    return not parts or parts in (own, kindless, [own[0], own[-1]], own[-1:])


def _entry(chosen: list[RecordedReconcile], recording: Path, number: int | None) -> RecordedReconcile:
    if number is not None:
        chosen = [each for each in chosen if each.number == number]
    if not chosen:
        what = "such reconcile" if number is None else f"reconcile {number}"
        raise click.UsageError(f"{recording} has no {what}; konverge replay {recording} --list shows what it has")
    return next((each for each in reversed(chosen) if each.failed), chosen[-1])


def _print_list(chosen: list[RecordedReconcile], output: str) -> None:
    if output == "json":
        print_json(
            [
                {
                    "reconcile": each.number,
                    "began": each.began,
                    "controller": each.controller,
                    "key": str(each.key),
                    "reasons": list(each.reasons),
                    "outcome": each.outcome,
                    "error": each.error,
                    "writes": list(each.writes),
                }
                for each in chosen
            ]
        )
        return
    for each in chosen:
        ending = f"{each.outcome}{f': {each.error}' if each.error else ''}"
        print_text(f"{each.number:>6}  {each.began}  {each.controller}  {each.key}  {ending.partition(chr(10))[0]}")


def _write_test(tape: Recording, entry: RecordedReconcile, target: str | None, file: Path) -> None:
    from konverge_testing.replay.scenario import scenario_of

    if target is None:
        raise click.UsageError("--as-test imports the build of an operator: name it, MODULE:BUILD")
    if entry.dropped:
        raise UsageError(f"reconcile {entry.number} was recorded without its reads: record with a greater size")
    _, build = chosen_build(target)
    assert build is not None
    module = Path(target.partition(":")[0])
    text = scenario_of(
        tape, entry, module.stem if module.suffix == ".py" else str(module), target.partition(":")[2] or "build"
    )
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists, and this command replaces no file") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"{file}: a test that fails while {entry.key} ends in {entry.outcome}; run it: pytest {file}")
