"""Run controller-runtime's own test suites on a real control plane and on the API server in memory; print what differs.

    python tools/suites/run.py [--only client] [--server memory] [--report FILE]

Guarantees: the suites are fetched from the Go module proxy at one version, whose checksum is checked, and are built once for a machine into
the cache of `konverge control-plane install`. Every suite runs once on each server, with one seed. Ends with status 1 if a spec that passes
on the real server fails in memory, or a suite did not run.

Caveats: the builds take about ten minutes of two cores the first time, the runs about ten minutes on each server. Specs that compare
times may fail on a busy machine: name the suite with --only and run it again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from konverge.clock import monotonic
from konverge_testing.binaries import Cache, find_binaries
from konverge_testing.failures import ControlPlaneError, InstallFailed
from konverge_testing.gobuild import build_environment

MODULE = "sigs.k8s.io/controller-runtime"
VERSION = "v0.24.1"
CHECKSUM = "h1:miPEwrmirImAvgME1L9qebGHrOnGJoVmVdtOU9fRfo4="
SUITES = (
    "builder",
    "cache",
    "client",
    "client/apiutil",
    "cluster",
    "controller",
    "controller/controllerutil",
    "envtest",
    "handler",
    "internal/controller",
    "internal/recorder",
    "internal/testing/controlplane",
    "manager",
    "manager/internal/integration",
    "metrics/filters",
    "reconcile",
    "source",
    "webhook",
)
"""The packages below pkg/ whose tests start a control plane."""
SERVERS = ("real", "memory")
SEED = "1"
OTHER_SERVERS = ".*/aggregatedDiscovery=false"
"""Subtests that download an old kube-apiserver."""
RUN_SECONDS = 1200
_SUBTEST = re.compile(r"^ *--- (?P<state>PASS|FAIL): (?P<name>\S+)", re.MULTILINE)
_STAND_IN = Path(__file__).with_name("stand_in.py")
_LOG_LINES = 15
_REASON = 160


@dataclass(frozen=True)
class Ran:
    """Every spec of one suite on one server, in order; an empty reason is a spec that passed."""

    specs: dict[str, str] = field(default_factory=dict)
    broken: str = ""
    """Why the suite has no report."""

    @property
    def passed(self) -> set[str]:
        return {name for name, reason in self.specs.items() if not reason}


def outcomes(reports: Sequence[dict[str, Any]]) -> Ran:
    """Return the specs of Ginkgo's JSON report; those that it skips, or that are pending, are left out.

    >>> report = {"LeafNodeType": "It", "ContainerHierarchyTexts": ["Client"], "LeafNodeText": "reads", "State": "failed",
    ...           "Failure": {"Message": "Expected\\n  true"}}
    >>> outcomes([{"SpecReports": [report]}]).specs
    {'Client reads': 'Expected true'}
    """
    specs: dict[str, str] = {}
    for report in reports:
        for spec in report["SpecReports"] or ():
            if spec["LeafNodeType"] != "It" or spec["State"] in ("skipped", "pending"):
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
            unique, number = name, 2
            while unique in specs:
                unique, number = f"{name} ({number})", number + 1
            message = " ".join(str((spec.get("Failure") or {}).get("Message", "")).split())
            specs[unique] = "" if spec["State"] == "passed" else message or spec["State"]
    return Ran(specs)


def subtests(message: str) -> dict[str, str]:
    """Return the subtests of plain Go tests in the output of `go test -v`: a suite may have such instead of Ginkgo's specs.

    >>> subtests("--- FAIL: TestX (0.1s)\\n    --- PASS: TestX/a_b (0.1s)\\n    --- FAIL: TestX/c (0.1s)")
    {'TestX a b': '', 'TestX c': 'failed'}
    """
    result = {match["name"]: "" if match["state"] == "PASS" else "failed" for match in _SUBTEST.finditer(message)}
    leaves = {name for name in result if not any(other.startswith(f"{name}/") for other in result)}
    return {name.replace("/", " ").replace("_", " "): result[name] for name in result if name in leaves and "/" in name}


def differences(real: Ran, memory: Ran) -> dict[str, str]:
    """Return the specs that pass on the real server and not in memory, with the reason.

    >>> differences(Ran({"a": "", "b": "", "c": "no"}), Ran({"a": "", "b": "slow"}))
    {'b': 'slow'}
    """
    return {
        name: memory.specs.get(name, "it did not run") for name in real.specs if name in real.passed - memory.passed
    }


def table(runs: dict[str, dict[str, Ran]]) -> Iterator[str]:
    """Yield the lines of the report: specs passed by suite and server, then every spec that differs."""
    yield f"{'suite':<26} {'real':>6} {'memory':>7} {'differ':>7}"
    totals = [0, 0, 0]
    for suite, by_server in runs.items():
        real, memory = by_server.get("real", Ran()), by_server.get("memory", Ran())
        # A spec counts in memory only if it passes on the real server too.
        alike = len(memory.passed & real.passed) if "real" in by_server else len(memory.passed)
        row = [len(real.passed), alike, len(differences(real, memory)) if len(by_server) == len(SERVERS) else 0]
        totals = [total + count for total, count in zip(totals, row, strict=True)]
        yield f"{suite:<26} {row[0]:>6} {row[1]:>7} {row[2]:>7}"
    yield f"{'all':<26} {totals[0]:>6} {totals[1]:>7} {totals[2]:>7}"
    for suite, by_server in runs.items():
        for server, ran in by_server.items():
            if ran.broken:
                yield f"\n{suite} did not run on the {server} server:\n{ran.broken}"
        if len(by_server) == len(SERVERS):
            for name, reason in differences(by_server["real"], by_server["memory"]).items():
                yield f"\n{suite}: {name}\n    {reason[:_REASON]}"
        else:
            for name, reason in next(iter(by_server.values())).specs.items():
                if reason:
                    yield f"\n{suite}: {name}\n    {reason[:_REASON]}"


# --- building --------------------------------------------------------------------------------------------------------------------


def built(suites: Sequence[str], cache: Cache) -> Path:
    """Return the folder with the sources and a test program for each suite; builds what is missing.

    Raises InstallFailed with the last lines of Go's output if a build fails.
    """
    home = cache.root / "suites" / VERSION
    if not (home / "source").is_dir():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        partial = home / "source.part"
        shutil.copytree(_downloaded(), partial, copy_function=shutil.copyfile)
        for folder in (partial, *(path for path in partial.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        for script in partial.rglob("*.sh"):
            script.chmod(0o755)  # a module keeps no modes
        partial.rename(home / "source")
    for suite in suites:
        program = program_of(home, suite)
        if not program.exists():
            print(f"==> building the suite {suite}", flush=True)
            command = [
                "go",
                "test",
                "-c",
                "-vet=off",
                "-mod=readonly",
                "-ldflags=-s -w",
                "-o",
                f"{program}.part",
                f"./pkg/{suite}",
            ]
            done = subprocess.run(
                command,
                cwd=home / "source",
                env=build_environment(os.environ, Cache(home)),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise InstallFailed(
                    "\n".join((f"go test -c of {suite} failed:", *done.stderr.splitlines()[-_LOG_LINES:]))
                )
            Path(f"{program}.part").rename(program)
    # Go's cache is no longer needed; its files stay writable.
    shutil.rmtree(Cache(home).go_build, ignore_errors=True)
    return home


def program_of(home: Path, suite: str) -> Path:
    return home / f"{suite.replace('/', '-')}.test"


def _downloaded() -> Path:
    if shutil.which("go") is None:
        raise InstallFailed(
            "the suites are built from source, and there is no go in PATH: install Go from https://go.dev/dl"
        )
    print(f"==> downloading {MODULE} {VERSION}", flush=True)
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    done = subprocess.run(
        command, env={**os.environ, "GOWORK": "off"}, cwd="/", capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in document:
        raise InstallFailed(f"{' '.join(command)} failed: {document.get('Error') or done.stderr.strip()}")
    if document["Sum"] != CHECKSUM:
        raise InstallFailed(
            f"{MODULE} {VERSION} has the checksum {document['Sum']}, and {CHECKSUM} was expected: it is not what was tested"
        )
    return Path(document["Dir"])


# --- running ---------------------------------------------------------------------------------------------------------------------


def assets(server: str, folder: Path) -> Path:
    """Return the folder of envtest's programs: the real programs, or the replacements that start the API server in memory."""
    binaries = find_binaries(os.environ)
    folder.mkdir()
    if binaries.kubectl is not None:
        (folder / "kubectl").symlink_to(binaries.kubectl)
    if server == "real":
        (folder / "etcd").symlink_to(binaries.etcd)
        (folder / "kube-apiserver").symlink_to(binaries.kube_apiserver)
        return folder
    stand_ins(folder)
    return folder


def stand_ins(folder: Path) -> tuple[Path, Path]:
    """Write programs that envtest takes for etcd and kube-apiserver; their standard error is appended to a log beside them."""
    etcd, apiserver = folder / "etcd", folder / "kube-apiserver"
    for script in (etcd, apiserver):
        # envtest looks in --help for flags that other versions have.
        script.write_text(
            f'#!/bin/sh\n[ "$1" = --help ] && exit 0\n'
            f'exec "{sys.executable}" "{_STAND_IN}" {script.name} "$@" 2>>"{script}.log"\n'
        )
        script.chmod(0o755)
    return etcd, apiserver


def ran(suite: str, home: Path, programs: Path, focus: str) -> Ran:
    """Run one suite on the servers of a folder."""
    report = programs / f"{suite.replace('/', '-')}.json"
    command = [
        str(program_of(home, suite)),
        f"--ginkgo.json-report={report}",
        f"--ginkgo.seed={SEED}",
        "--ginkgo.no-color",
        "-test.v",
        f"-test.skip={OTHER_SERVERS}",
    ]
    if focus:
        command.append(f"--ginkgo.focus={focus}")
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(programs)}
    for name in ("USE_EXISTING_CLUSTER", "KUBECONFIG"):
        environment.pop(name, None)
    process = subprocess.Popen(
        command,
        cwd=home / "source" / "pkg" / suite,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        message, _ = process.communicate(timeout=RUN_SECONDS)
    except BaseException as error:
        process.terminate()  # Ginkgo then ends the servers and writes its report
        message, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    finally:
        _end_session(process.pid)
    (programs / f"{suite.replace('/', '-')}.log").write_text(message)
    if not report.exists():
        return Ran(broken="\n".join(message.splitlines()[-_LOG_LINES:]))
    return Ran({**outcomes(json.loads(report.read_text())).specs, **subtests(message)})


def _end_session(session: int) -> None:
    """End the servers that a suite left running: envtest gives each a process group of its own, and all are of one session."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name of the program, in parentheses, may have blanks; the session is the fourth field after it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=SUITES, help="one suite; may be repeated")
    parser.add_argument("--server", choices=SERVERS, help="one server; without, both")
    parser.add_argument("--focus", default="", help="a regular expression of the specs that run")
    parser.add_argument("--report", type=Path, help="write the outcome of every spec there, as JSON")
    parser.add_argument("--keep", type=Path, help="a new folder for Ginkgo's reports and the logs")
    options = parser.parse_args()
    suites = options.only or list(SUITES)
    runs: dict[str, dict[str, Ran]] = {suite: {} for suite in suites}
    try:
        home = built(suites, Cache.of(os.environ))
        with tempfile.TemporaryDirectory(prefix="konverge-suites-") as scratch:
            folder = options.keep or Path(scratch)
            folder.mkdir(exist_ok=True)
            for server in [options.server] if options.server else SERVERS:
                programs = assets(server, folder / server)
                for suite in suites:
                    began = monotonic()
                    runs[suite][server] = result = ran(suite, home, programs, options.focus)
                    print(
                        f"==> {suite} on {server}: {len(result.passed)} of {len(result.specs)} passed ({monotonic() - began:.0f} s)",
                        flush=True,
                    )
    except (ControlPlaneError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(table(runs)))
    if options.report:
        options.report.write_text(
            json.dumps({suite: {server: item.specs for server, item in by.items()} for suite, by in runs.items()})
        )
    complete = all(len(by) == len(SERVERS) for by in runs.values())
    lacking = any(item.broken for by in runs.values() for item in by.values())
    return int(lacking or (complete and any(differences(by["real"], by["memory"]) for by in runs.values())))


if __name__ == "__main__":
    sys.exit(main())
