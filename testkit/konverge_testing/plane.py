"""A control plane as blocking code: processes, readiness, credentials.

Guarantees
- `start` returns when `/readyz` is ok, and raises ControlPlaneError with the last lines of the guilty log when that takes
  too long or a program ends; either way nothing is left behind. `stop` leaves no process, no file and no reserved port.
- The programs and the directory are also removed when this process dies, however it dies (see `keeper.py`).
- Methods may be called from any thread; none needs an event loop. `abort` ends a start in another thread.

Caveats: the controllers may not have filled their caches when `start` returns. That takes about three seconds more; they are
level-triggered, so nothing is missed.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from konverge import clock
from konverge_testing import arguments
from konverge_testing.api import Api
from konverge_testing.apiserver.certificates import Authority, KeyPair
from konverge_testing.arguments import HOST, Layout
from konverge_testing.binaries import (
    APISERVER,
    ASSETS_VARIABLE,
    CONTROLLER_MANAGER,
    ETCD,
    KUBECTL,
    REMEDY,
    Binaries,
    find_binaries,
    minor_version,
)
from konverge_testing.config import ControlPlaneConfig
from konverge_testing.failures import BinariesMissing, ControlPlaneError
from konverge_testing.files import write_files, write_kubeconfig
from konverge_testing.mounted import write_mounted
from konverge_testing.ports import ReservedPort
from konverge_testing.processes import Exit, KeeperClient
from konverge_testing.scratch import claim, default_root

__all__ = ["Plane"]

_POLL_SECONDS = 0.05
_LOG_LINES = 15
_LOG_BYTES = 64 * 1024
_KUBECTL_SECONDS = 120.0


@dataclass(frozen=True, slots=True, repr=False)
class _Running:
    """The state between `start` and `stop`."""

    binaries: Binaries
    layout: Layout
    ports: tuple[ReservedPort, ...]
    authority: Authority
    api: Api
    keeper: KeeperClient


class Plane:
    """One control plane: `start`, then everything else, then `stop`. May be started again after that, with a new directory."""

    def __init__(self, config: ControlPlaneConfig) -> None:
        self._config = config
        self._running: _Running | None = None
        self._abort = threading.Event()
        self._numbers = count(1)
        self._asked_to_end: set[str] = set()

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all programs and wait until the API server is ready."""
        if self._running is not None:
            raise ControlPlaneError("this control plane runs already")
        binaries = self._config.binaries or find_binaries(os.environ)
        if self._config.controllers:
            _check_controller_manager(binaries)
        self._abort.clear()
        self._running = _prepare(self._config, binaries)
        try:
            self._launch(self._running)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all programs and remove every file; nothing if it does not run."""
        running, self._running = self._running, None
        if running is not None:
            running.keeper.close()
            for port in running.ports:
                port.release()

    def abort(self) -> None:
        """Let a start in another thread fail with ControlPlaneError."""
        self._abort.set()

    def stop_apiserver(self) -> None:
        """Kill kube-apiserver, as a crash would; its port stays reserved and its data stays in etcd."""
        self._asked_to_end.add(APISERVER)
        self._parts.keeper.kill(APISERVER)

    def start_apiserver(self) -> None:
        """Start kube-apiserver again, on the same port and data, and wait until it is ready."""
        self._abort.clear()
        self._start_apiserver(self._parts)
        self._wait_until_ready(self._parts)

    def fallen(self) -> dict[str, Exit]:
        """Return the programs that ended unexpectedly."""
        ends = {name: self._parts.keeper.exit_of(name) for name in (ETCD, APISERVER, CONTROLLER_MANAGER)}
        return {name: end for name, end in ends.items() if end is not None and name not in self._asked_to_end}

    # -- what it offers -------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> _Running:
        """The running state; raises ControlPlaneError outside `start` and `stop`."""
        if self._running is None:
            raise ControlPlaneError("this control plane does not run: enter it first")
        return self._running

    @property
    def is_running(self) -> bool:
        """Whether it is between `start` and `stop`."""
        return self._running is not None

    @property
    def layout(self) -> Layout:
        """Where its files and ports are."""
        return self._parts.layout

    @property
    def binaries(self) -> Binaries:
        """The programs that it runs."""
        return self._parts.binaries

    @property
    def api(self) -> Api:
        """Calls as the administrator."""
        return self._parts.api

    def pids(self) -> dict[str, int]:
        """Return the process ids of all its programs, the keeper included."""
        return {"keeper": self._parts.keeper.pid, **self._parts.keeper.pids()}

    def log_tail(self, program: str, lines: int = _LOG_LINES) -> str:
        """Return the last lines of a program's log."""
        return _tail(self.layout.log(program), lines)

    def user_kubeconfig(self, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig with a client certificate for a user in groups."""
        return self._write_kubeconfig(user, self._parts.authority.client(user, groups=groups))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Create the ServiceAccount if need be and write a kubeconfig with a token of it."""
        token = self.service_account_token(namespace, name)
        return self._write_kubeconfig(f"{namespace}-{name}", token, namespace)

    def service_account_token(
        self, namespace: str, name: str, *, seconds: int = 3600, audiences: tuple[str, ...] = ()
    ) -> str:
        """Create the ServiceAccount if need be and return a token of it."""
        self.api.create_service_account(namespace, name)
        return self.api.service_account_token(namespace, name, seconds=seconds, audiences=audiences)

    def service_account_files(self, directory: Path, namespace: str, name: str) -> None:
        """Write token, ca.crt and namespace as in a pod; a second call rotates them, with a new token."""
        token = self.service_account_token(namespace, name)
        authority = self.layout.pki("ca.crt").read_bytes()
        write_mounted(directory, {"token": token.encode(), "ca.crt": authority, "namespace": namespace.encode()})

    def kubectl(self, *command: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its standard output; raises ControlPlaneError if it fails."""
        program = self.binaries.kubectl
        if program is None:
            raise BinariesMissing(f"no {KUBECTL} beside kube-apiserver or in the cache; to get it: {REMEDY}")
        done = subprocess.run(
            [program, f"--cache-dir={self.layout.directory / 'kubectl'}", *command],
            input=stdin,
            env={**os.environ, "KUBECONFIG": str(self.layout.kubeconfig("admin"))},
            capture_output=True,
            text=True,
            timeout=_KUBECTL_SECONDS,
            check=False,
        )
        if done.returncode:
            # Only the words before the first flag: what follows may hold a token or the content of a Secret.
            words = " ".join(takewhile(lambda word: not word.startswith("-"), command))
            raise ControlPlaneError(f"kubectl {words}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    # -- inside ---------------------------------------------------------------------------------------------------

    def _launch(self, running: _Running) -> None:
        running.keeper.start(
            ETCD, [str(running.binaries.etcd), *arguments.etcd_arguments(running.layout)], running.layout.log(ETCD)
        )
        self._start_apiserver(running)
        self._wait_until_ready(running)
        if self._config.controllers:
            flags = arguments.controller_manager_arguments(self._config, running.layout)
            program = [str(running.binaries.kube_controller_manager), *flags]
            running.keeper.start(CONTROLLER_MANAGER, program, running.layout.log(CONTROLLER_MANAGER))

    def _start_apiserver(self, running: _Running) -> None:
        flags = arguments.apiserver_arguments(self._config, running.layout)
        self._asked_to_end.discard(APISERVER)
        running.keeper.start(APISERVER, [str(running.binaries.kube_apiserver), *flags], running.layout.log(APISERVER))

    def _wait_until_ready(self, running: _Running) -> None:
        deadline = clock.monotonic() + self._config.start_seconds
        while True:
            for name in (ETCD, APISERVER):
                end = running.keeper.exit_of(name)
                if end is not None:
                    raise ControlPlaneError(f"{name} did not come up: {end}; {self._log_words(name)}")
            ready, words = running.api.ready()
            if ready:
                return
            if clock.monotonic() >= deadline:
                failed = [line for line in words.splitlines() if not line.startswith("[+]")]
                raise ControlPlaneError(
                    f"kube-apiserver was not ready within {self._config.start_seconds:g} s: {' '.join(failed)}; "
                    + self._log_words(APISERVER)
                )
            if self._abort.is_set():
                raise ControlPlaneError("the start was given up")
            running.keeper.wait_for_news(_POLL_SECONDS)

    def _log_words(self, program: str) -> str:
        return f"the last lines of its log:\n{self.log_tail(program)}"

    def _write_kubeconfig(self, user: str, credentials: KeyPair | str, namespace: str = "default") -> Path:
        slug = re.sub(r"[^a-z0-9.-]+", "-", user.lower())
        document = arguments.kubeconfig(
            url=self.layout.url,
            authority=self._parts.authority.certificate,
            user=user,
            credentials=credentials,
            namespace=namespace,
        )
        return write_kubeconfig(self.layout.kubeconfig(f"{slug}-{next(self._numbers)}"), document)


def _prepare(config: ControlPlaneConfig, binaries: Binaries) -> _Running:
    """Claim a directory, hand it to a keeper, and write what the programs need; removes everything if that fails."""
    keeper = KeeperClient.launch(claimed := claim(config.root or default_root()))
    ports: list[ReservedPort] = []
    try:
        ports += (ReservedPort(HOST), ReservedPort(HOST))
        layout = Layout(claimed.directory, etcd_port=ports[0].number, apiserver_port=ports[1].number)
        authority = write_files(layout)
        api = Api(
            host=HOST,
            port=layout.apiserver_port,
            authority=layout.pki("ca.crt"),
            certificate=layout.pki("admin.crt"),
            key=layout.pki("admin.key"),
        )
    except BaseException:
        keeper.close()
        for port in ports:
            port.release()
        raise
    return _Running(binaries, layout, tuple(ports), authority, api, keeper)


def _check_controller_manager(binaries: Binaries) -> None:
    manager = binaries.kube_controller_manager
    if manager is None:
        raise BinariesMissing(
            f"controllers were asked for, and {binaries.source} has no {CONTROLLER_MANAGER}; to get it: {REMEDY}"
        )
    if manager.parent == binaries.kube_apiserver.parent:
        return
    versions = {path.name: _version_of(path) for path in (binaries.kube_apiserver, manager)}
    if len(set(versions.values())) > 1:
        result = ", ".join(f"{name} {version}" for name, version in versions.items())
        raise ControlPlaneError(
            f"these do not work together: {result} ({binaries.describe()}); run without controllers, or unset "
            f"{ASSETS_VARIABLE} so that all programs come from one place"
        )


def _version_of(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
    version = minor_version(done.stdout)
    return ".".join(map(str, version)) if version else "of unknown version"


def _tail(path: Path, lines: int) -> str:
    """Return the last lines of a file that are not empty; "" if there are none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _LOG_BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
