"""Programs written in Go, built once for a machine: helm and a small program on client-go from the module `tests/support/go_clients`;
Prometheus, without its pages and its service discovery, from `tests/support/go_prometheus`; versitygw, an S3 server, from
`tests/support/go_versitygw`; clusterctl and the core controller of Cluster API from `tests/support/go_cluster_api`.

Guarantees: versions and checksums are pinned by the go.mod and go.sum of each module, which a build never changes. The programs appear in
the cache of `konverge control-plane install` whole or not at all, in a folder named after the state of the sources. A second session waits
for the build of the first. The build cache is separate from the user's, and is removed after the build.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from konverge_testing.binaries import Cache, is_program
from konverge_testing.failures import BinariesMissing, ControlPlaneError, InstallFailed, build_failure
from konverge_testing.gobuild import build_environment

CLIENTS = "clients"
CAPI_CORE = "cluster-api"
CLUSTERCTL = "clusterctl"
HELM = "helm"
PROMETHEUS = "prometheus"
VERSITYGW = "versitygw"
BUILD_SECONDS = 900
"""Seconds that a build may take: it needs about six minutes on one core, or three on two."""

_SUPPORT = Path(__file__).parents[1] / "tests" / "support"
_COMMAND = ("go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")


@dataclass(frozen=True)
class _Module:
    """A Go module, and the programs of its build."""

    folder: str
    packages: tuple[str, ...]
    programs: str
    cache: str
    flags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Patterns of files that are copied beside the programs, from the module of the first package."""

    @property
    def sources(self) -> Path:
        return _SUPPORT / self.folder

    @property
    def command(self) -> tuple[str, ...]:
        return (*_COMMAND, *self.flags)


_CLIENTS = _Module("go_clients", (".", "helm.sh/helm/v4/cmd/helm"), f"{HELM} and a program on client-go", "go-clients")
_CLUSTER_API = _Module(
    "go_cluster_api",
    ("sigs.k8s.io/cluster-api", "sigs.k8s.io/cluster-api/cmd/clusterctl"),
    f"{CLUSTERCTL} and the core controller of Cluster API",
    "cluster-api",
    files=("config/**/*.yaml", "metadata.yaml"),
)
_MODULES = {
    CAPI_CORE: _CLUSTER_API,
    CLUSTERCTL: _CLUSTER_API,
    HELM: _CLIENTS,
    CLIENTS: _CLIENTS,
    PROMETHEUS: _Module(
        "go_prometheus",
        ("github.com/prometheus/prometheus/cmd/prometheus",),
        PROMETHEUS,
        "prometheus",
        # Most of what it would compile otherwise are the clients of twenty clouds.
        ("-tags=remove_all_sd,enable_file_sd",),
    ),
    VERSITYGW: _Module("go_versitygw", ("github.com/versity/versitygw/cmd/versitygw",), VERSITYGW, "versitygw"),
}
_END_SECONDS = 10


def go_program(name: str, environment: Mapping[str, str], *, tell: Callable[[str], None] | None) -> Path:
    """Return the path of one of the programs; builds all of its module if they are missing, with a line of output before.

    Raises BinariesMissing if Go is missing, or `tell` is None and a build is needed; InstallFailed with the last lines of a build that
    failed.
    """
    module = _MODULES[name]
    cache = Cache.of(environment)
    home = cache.root / module.cache / _fingerprint(module)
    if is_program(home / name):
        return home / name
    if tell is None:
        raise BinariesMissing(f"no {name} in {home}, and none is built")
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise BinariesMissing(f"no {name}: it is built from source, and there is no go in PATH")
    with _locked(home.with_name("build.lock")):
        if not is_program(home / name):
            tell(f"building {module.programs} into {home} (once for this machine; some minutes)")
            _build(module, home, environment, Cache(cache.root / module.cache))
    return home / name


def _fingerprint(module: _Module) -> str:
    digest = hashlib.sha256(repr((*module.command, *module.files)).encode())
    for path in sorted(module.sources.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _build(module: _Module, home: Path, environment: Mapping[str, str], cache: Cache) -> None:
    partial = home.with_name(f"{home.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    process = subprocess.Popen(
        [*module.command, "-o", f"{partial}/", *module.packages],
        cwd=module.sources,
        env=build_environment(environment, cache),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        message, _ = process.communicate(timeout=BUILD_SECONDS)
    except BaseException as error:  # a deadline, Ctrl-C: no compiler stays behind
        _end(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise InstallFailed(
                f"go build of {module.programs} took longer than {BUILD_SECONDS} s and was ended; run it again when the machine is less busy"
            ) from None
        raise
    if process.returncode:
        raise InstallFailed(build_failure(f"go build of {module.programs}", message.splitlines()))
    _copy_files(module, partial, build_environment(environment, cache))
    partial.rename(home)
    # Go keeps the files of its cache writable, so the removal needs no chmod.
    shutil.rmtree(cache.go_build)


def _copy_files(module: _Module, target: Path, environment: Mapping[str, str]) -> None:
    """Copy what tests read of the module: a later run may have the programs and no module cache of Go."""
    if not module.files:
        return
    source = Path(
        subprocess.check_output(
            ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module.packages[0]],
            cwd=module.sources,
            env=environment,
            text=True,
        ).strip()
    )
    for path in (path for pattern in module.files for path in source.glob(pattern)):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt Go, which then removes its work folder; kill what is left of it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_END_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


if __name__ == "__main__":  # so that a program can be built before the tests
    try:
        for wanted in sys.argv[1:] or [HELM]:
            print(go_program(wanted, os.environ, tell=print))
    except (ControlPlaneError, OSError) as error:
        sys.exit(str(error))
