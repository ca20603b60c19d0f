"""Builds the programs from their public Go modules.

Guarantees: versions and the checksums of all sources are pinned by the go.mod and go.sum beside this file, which a build
never changes. The build cache is separate from the user's, so that it can be removed; an interrupted build reuses its
compiled packages. The modules are stored in the user's module cache.

Sources of the rules: the shared facts on control planes from public Go modules. The version must be stamped at link time:
without it the server gives a placeholder for its version, and kubectl cannot compare.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from konverge import clock
from konverge_testing.binaries import ETCD, KUBERNETES_VERSION, Cache
from konverge_testing.failures import InstallFailed, build_failure
from konverge_testing.placing import placed

__all__ = ["build", "build_command", "build_environment", "module_directory"]

_MODULES = Path(__file__).with_name("build")
_TICK_SECONDS = 1.0
_END_SECONDS = 10.0


def module_directory(program: str) -> Path:
    """Return the folder with the go.mod that builds a program."""
    return _MODULES / ("etcd" if program == ETCD else "kubernetes")


def build_command(program: str, output: Path) -> list[str]:
    """Return the command that builds a program; explicit flags win over GOFLAGS."""
    package = "go.etcd.io/etcd/server/v3" if program == ETCD else f"k8s.io/kubernetes/cmd/{program}"
    return [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        " ".join(("-s", "-w", *_stamps(program))),
        "-o",
        str(output),
        package,
    ]


def build_environment(environment: Mapping[str, str], cache: Cache) -> dict[str, str]:
    """Return the environment of a build: for this machine, static, and without a Go workspace of a parent folder."""
    theirs = {name: value for name, value in environment.items() if name not in ("GOOS", "GOARCH")}
    return {**theirs, "CGO_ENABLED": "0", "GOCACHE": str(cache.go_build), "GOWORK": "off"}


def build(
    program: str, target: Path, *, environment: Mapping[str, str], cache: Cache, tick: Callable[[float], None]
) -> None:
    """Build a program and put it at `target`; `tick` is called with the seconds so far, about once a second.

    Raises InstallFailed with the last lines of Go's output. A KeyboardInterrupt ends Go first.
    """
    log = cache.root / f"build-{program}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with placed(target) as partial:
        with log.open("wb") as output:
            process = subprocess.Popen(
                build_command(program, partial),
                cwd=module_directory(program),
                env=build_environment(environment, cache),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            code = _wait(process, tick)
        if code:
            lines = log.read_text(errors="replace").splitlines()
            raise InstallFailed(f"{build_failure(f'go build of {program}', lines)}\nall of its output: {log}")
    log.unlink()


def _wait(process: subprocess.Popen[bytes], tick: Callable[[float], None]) -> int:
    started = clock.monotonic()
    try:
        while True:
            try:
                return process.wait(_TICK_SECONDS)
            except subprocess.TimeoutExpired:
                tick(clock.monotonic() - started)
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt Go, which then removes its work folder; kill it if a compiler keeps it too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stamps(program: str) -> tuple[str, ...]:
    if program == ETCD:
        return ()
    major, minor, _ = KUBERNETES_VERSION.split(".")
    values = {
        "gitVersion": f"v{KUBERNETES_VERSION}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return tuple(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
