"""The steps that an install still needs: pure decisions by the programs that were found.

Guarantees: `plan_install` is a function of its arguments, and planning again after any number of finished steps, failures
or interruptions returns exactly the remaining steps. The first plan of a complete machine is empty.

Rules
- `go` builds all four programs from source; `envtest` fetches the official archive, which has no kube-controller-manager.
- `auto` does the least that gives a working control plane: it uses the programs that exist, fetches those in the archive, and builds the
  rest if Go is installed. A fetch that failed is not repeated in the same run; its programs are built instead.
- Go's build cache (3 GB) is removed once nothing is left to build, and kept while an interrupted build may be taken up
  again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from konverge_testing.binaries import (
    APISERVER,
    CONTROLLER_MANAGER,
    ENVTEST_VERSION,
    ETCD,
    ETCD_VERSION,
    KUBECTL,
    KUBERNETES_VERSION,
    PROGRAMS,
)

__all__ = [
    "ENVTEST_PROGRAMS",
    "Build",
    "Clean",
    "Fetch",
    "InstallPlan",
    "FoundPrograms",
    "Source",
    "Step",
    "plan_install",
]

ENVTEST_PROGRAMS = (ETCD, APISERVER, KUBECTL)
"""The programs in the official archive."""

_CORE = frozenset({ETCD, APISERVER})
_TAKES = {
    ETCD: "half a minute",
    APISERVER: "4 minutes",
    CONTROLLER_MANAGER: "2 minutes",
    KUBECTL: "half a minute",
}


class Source(StrEnum):
    """Where an install takes the programs from."""

    AUTO = "auto"
    ENVTEST = "envtest"
    GO = "go"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPrograms:
    """The programs that were found on the machine.

    `given` are the programs of `KUBEBUILDER_ASSETS` or the system's folder, `built` and `fetched` the programs in the cache. `go`: Go is
    installed. `archive`: there is an archive for this platform. `fetch_failed` is the error of a failed fetch of this run, or "".
    `build_cache`: Go's build cache still exists.
    """

    given: frozenset[str] = frozenset()
    built: frozenset[str] = frozenset()
    fetched: frozenset[str] = frozenset()
    go: bool = False
    archive: bool = False
    fetch_failed: str = ""
    build_cache: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch the official archive and unpack it."""

    @property
    def title(self) -> str:
        """The step for the user."""
        return f"fetch {', '.join(ENVTEST_PROGRAMS)} {ENVTEST_VERSION} from the official envtest archive"


@dataclass(frozen=True, slots=True)
class Build:
    """Build one program from its public Go module."""

    program: str

    @property
    def version(self) -> str:
        """The version that is built."""
        return ETCD_VERSION if self.program == ETCD else KUBERNETES_VERSION

    @property
    def title(self) -> str:
        """The step for the user; the time was measured on two cores."""
        return f"build {self.program} {self.version} from source (about {_TAKES[self.program]} on 2 cores)"


@dataclass(frozen=True, slots=True)
class Clean:
    """Remove Go's build cache."""

    @property
    def title(self) -> str:
        """The step for the user."""
        return "remove the build cache"


Step: TypeAlias = Fetch | Build | Clean


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """The remaining steps, in order; the programs that will still be missing after them, and why."""

    steps: tuple[Step, ...]
    lacking: tuple[str, ...] = ()
    why: str = ""

    @property
    def usable(self) -> bool:
        """Whether a control plane can run when the steps are done, if only without controllers or kubectl."""
        return not _CORE.intersection(self.lacking)


def plan_install(seen: FoundPrograms, source: Source) -> InstallPlan:
    """Return the remaining steps."""
    if source is Source.GO:
        return _build(seen, _lacking(seen.built, PROGRAMS), no_archive="")
    if source is Source.ENVTEST:
        return _fetch_only(seen)
    need = _needed(seen)
    obstacle = _no_archive(seen)
    if need.intersection(ENVTEST_PROGRAMS) and not obstacle:
        rest = _build(seen, _lacking(frozenset(ENVTEST_PROGRAMS), _ordered(need)), no_archive="")
        return InstallPlan((Fetch(), *rest.steps), rest.lacking, rest.why)
    return _build(seen, _ordered(need), no_archive=obstacle)


def _needed(seen: FoundPrograms) -> frozenset[str]:
    """Return the missing programs: etcd and kube-apiserver must be in one place, the others may be in any."""
    sources = (seen.given, seen.built, seen.fetched)
    core = frozenset[str]() if any(source >= _CORE for source in sources) else _CORE
    return core | (frozenset((CONTROLLER_MANAGER, KUBECTL)) - frozenset().union(*sources))


def _build(seen: FoundPrograms, wanted: Iterable[str], *, no_archive: str) -> InstallPlan:
    missing = _lacking(seen.built, wanted)
    clean: tuple[Step, ...] = (Clean(),) if seen.build_cache or missing else ()
    if not missing:
        return InstallPlan(clean)
    if not seen.go:
        why = f"{', '.join(missing)} can only be built from source, and there is no `go` in PATH (https://go.dev/dl)"
        return InstallPlan((), missing, "; ".join(filter(None, (no_archive, why))))
    return InstallPlan((*map(Build, missing), *clean))


def _fetch_only(seen: FoundPrograms) -> InstallPlan:
    missing = _lacking(seen.fetched, ENVTEST_PROGRAMS)
    obstacle = _no_archive(seen)
    if missing and obstacle:
        return InstallPlan((), missing, obstacle)
    return InstallPlan((Fetch(),) if missing else ())


def _no_archive(seen: FoundPrograms) -> str:
    if seen.fetch_failed:
        return seen.fetch_failed
    return "" if seen.archive else "there is no envtest archive for this platform"


def _lacking(have: frozenset[str], wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in wanted if name not in have)


def _ordered(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in PROGRAMS if name in names)
