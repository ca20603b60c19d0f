"""Carries out an install: find programs, plan, do one step, repeat.

Guarantees: a finished step stays finished, whatever interrupts the rest; the same command continues with the next step, and returns
quickly if nothing is left to do. Two installs into one cache do not run at once: the second waits, and finds the work done.

Caveats: programs that other tools put into the cache's folders are not checked.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from konverge_testing import envtest, gobuild
from konverge_testing.binaries import (
    APISERVER,
    ENVTEST_VERSION,
    ETCD,
    KUBERNETES_VERSION,
    PROGRAMS,
    Cache,
    is_program,
    places,
)
from konverge_testing.failures import InstallFailed
from konverge_testing.install_plan import Build, Clean, Fetch, FoundPrograms, InstallPlan, Source, Step, plan_install

__all__ = ["Carrier", "Machine", "Progress", "look", "run_install"]


class Progress(Protocol):
    """Receives the progress of an install."""

    def begin(self, number: int, total: int, title: str) -> None:
        """A step begins."""

    def tick(self, detail: str) -> None:
        """The step is still under way: seconds so far, or bytes."""

    def end(self, words: str) -> None:
        """The step has ended: done, or why it failed."""

    def note(self, line: str) -> None:
        """A message that does not belong to a step."""


class Carrier(Protocol):
    """Carries out the steps; raises InstallFailed if one fails."""

    def look(self) -> FoundPrograms:
        """Return what is on the machine."""

    def execute(self, step: Step, progress: Progress) -> None:
        """Do one step, whole."""


def run_install(source: Source, carrier: Carrier, progress: Progress) -> InstallPlan:
    """Do the remaining steps and return the last plan: no steps, and the programs that could not be installed.

    Raises InstallFailed if the result is not a working control plane. The caller holds the lock.
    """
    fetch_failed = untold = ""
    finished: set[Step] = set()
    while True:
        plan = plan_install(replace(carrier.look(), fetch_failed=fetch_failed), source)
        if not plan.steps:
            break
        step = plan.steps[0]
        if step in finished:
            raise InstallFailed(f"{step.title}: it seemed to succeed, and its result is not there")
        if untold:  # without a step that replaces it, it is part of the error
            progress.note(untold)
            untold = ""
        progress.begin(len(finished) + 1, len(finished) + len(plan.steps), step.title)
        try:
            carrier.execute(step, progress)
        except InstallFailed as error:
            progress.end("failed")
            if not isinstance(step, Fetch):
                raise
            fetch_failed = untold = str(error)
            continue
        finished.add(step)
        progress.end("done")
    if not plan.usable:
        raise InstallFailed(plan.why)
    return plan


def look(environment: Mapping[str, str], cache: Cache, *, archive: bool, fetch_failed: str = "") -> FoundPrograms:
    """Return what is on the machine."""
    given = (place.directory for place in places(environment) if cache.root not in place.directory.parents)
    return FoundPrograms(
        given=next((item for item in map(_programs, given) if item >= {ETCD, APISERVER}), frozenset()),
        built=_programs(cache.version(KUBERNETES_VERSION)),
        fetched=_programs(cache.version(ENVTEST_VERSION)),
        go=shutil.which("go", path=environment.get("PATH")) is not None,
        archive=archive,
        fetch_failed=fetch_failed,
        build_cache=cache.go_build.is_dir(),
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """The carrier that really does it."""

    environment: Mapping[str, str]
    cache: Cache

    @property
    def archive(self) -> envtest.Archive | None:
        """The archive for this machine, if there is one."""
        return envtest.archive_for(envtest.platform_name(platform.system(), platform.machine()), self.environment)

    @contextmanager
    def locked(self, progress: Progress) -> Iterator[None]:
        """Hold the cache's install lock; reports and waits for another install."""
        self.cache.control_plane.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.cache.control_plane / "install.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress.note("another install into this cache is running; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def look(self) -> FoundPrograms:
        """Return what is on the machine."""
        return look(self.environment, self.cache, archive=self.archive is not None)

    def execute(self, step: Step, progress: Progress) -> None:
        """Do one step, whole."""
        match step:
            case Fetch():
                self._fetch(progress)
            case Build(program):
                gobuild.build(
                    program,
                    self.cache.version(KUBERNETES_VERSION) / program,
                    environment=self.environment,
                    cache=self.cache,
                    tick=lambda seconds: progress.tick(elapsed_words(seconds)),
                )
            case Clean():
                shutil.rmtree(self.cache.go_build)

    def _fetch(self, progress: Progress) -> None:
        archive = self.archive
        if archive is None:
            raise InstallFailed("there is no envtest archive for this platform")

        def report(came: int, total: int) -> None:
            progress.tick(f"{came >> 20} of {total >> 20} MiB" if total else f"{came >> 20} MiB")

        envtest.fetch(archive, self.cache.version(ENVTEST_VERSION), report)


def elapsed_words(seconds: float) -> str:
    """Write a duration for people.

    >>> elapsed_words(75.4)
    '1 min 15 s'
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _programs(directory: Path) -> frozenset[str]:
    return frozenset(name for name in PROGRAMS if is_program(directory / name))
