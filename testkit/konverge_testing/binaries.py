"""Finds etcd, kube-apiserver, kube-controller-manager and kubectl.

Guarantees: the places are tried in a fixed order, and `Binaries.source` names the chosen place:

1. the directory named by `KUBEBUILDER_ASSETS`;
2. `/usr/local/kubebuilder/bin`;
3. the cache, `~/.cache/konverge/control-plane/<version>/`, or below `KONVERGE_CACHE`, which `konverge control-plane
   install` fills with the official envtest archive or with a build of the public Go modules.

A place counts when it holds both etcd and kube-apiserver. If it lacks kube-controller-manager or kubectl (the envtest archive has no
controller-manager), the cache lends its own.

Caveats: programs in `PATH` are ignored; an etcd found there may be of any age. Nothing is downloaded or built here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from konverge_testing.failures import BinariesMissing

__all__ = [
    "APISERVER",
    "ASSETS_VARIABLE",
    "CONTROLLER_MANAGER",
    "ENVTEST_VERSION",
    "ETCD",
    "ETCD_VERSION",
    "KUBECTL",
    "KUBERNETES_VERSION",
    "PROGRAMS",
    "REMEDY",
    "Binaries",
    "Cache",
    "ProgramFolder",
    "find_binaries",
    "is_program",
    "minor_version",
    "places",
]

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
KUBECTL = "kubectl"
PROGRAMS = (ETCD, APISERVER, CONTROLLER_MANAGER, KUBECTL)
"""All programs, in build order: the programs that are needed first are first."""

KUBERNETES_VERSION = "1.36.3"
"""The version of the build from source; a test compares it with `build/kubernetes/go.mod`."""

ETCD_VERSION = "3.6.16"
"""The version of the build from source; a test compares it with `build/etcd/go.mod`."""

ENVTEST_VERSION = "1.36.2"
"""The newest envtest archive of the same minor version."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
CACHE_VARIABLE = "KONVERGE_CACHE"
SYSTEM_DIRECTORY = Path("/usr/local/kubebuilder/bin")
REMEDY = "konverge control-plane install"


def is_program(path: Path) -> bool:
    """Return whether a path is a file that this user may execute."""
    return path.is_file() and os.access(path, os.X_OK)


def minor_version(output: str) -> tuple[int, int] | None:
    """Read major and minor from the output of `kube-apiserver --version`, or None if it has no version.

    >>> minor_version("Kubernetes v1.36.3")
    (1, 36)
    """
    match = re.search(r"v(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Cache:
    """The folder that `konverge control-plane install` fills; created only when something is put into it."""

    root: Path

    @classmethod
    def of(cls, environment: Mapping[str, str], *, home: Path | None = None) -> Cache:
        """Return the cache that these environment variables choose; `home` defaults to the user's."""
        chosen = environment.get(CACHE_VARIABLE, "")
        if chosen:
            return cls(Path(chosen).expanduser().absolute())
        return cls((home if home is not None else Path.home()) / ".cache" / "konverge")

    @property
    def control_plane(self) -> Path:
        """The folder above the versions; it holds the install lock."""
        return self.root / "control-plane"

    def version(self, version: str) -> Path:
        """The folder of one version's programs."""
        return self.control_plane / version

    @property
    def go_build(self) -> Path:
        """The build cache that Go uses while an install is under way; removed when it has succeeded."""
        return self.root / "go-build"


@dataclass(frozen=True, slots=True)
class ProgramFolder:
    """A folder that may hold the programs, and how to name it to a person."""

    words: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the programs, and their origin.

    `source` is a phrase for people; `notes` lists the places that were skipped and the programs that another place lent.
    """

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path | None
    kubectl: Path | None
    source: str
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return one line: the source and its notes."""
        return "; ".join((f"control plane: {self.source}", *self.notes))


def places(environment: Mapping[str, str], *, home: Path | None = None) -> tuple[ProgramFolder, ...]:
    """Return every place, in the order of the search."""
    return (*_given_places(environment), *_cache_places(Cache.of(environment, home=home)))


def _given_places(environment: Mapping[str, str]) -> Iterator[ProgramFolder]:
    assets = environment.get(ASSETS_VARIABLE, "")
    if assets:
        yield ProgramFolder(f"{ASSETS_VARIABLE}={assets}", Path(assets).expanduser().absolute())
    yield ProgramFolder(str(SYSTEM_DIRECTORY), SYSTEM_DIRECTORY)


def _cache_places(cache: Cache) -> Iterator[ProgramFolder]:
    for version, manifest in ((KUBERNETES_VERSION, "built from source"), (ENVTEST_VERSION, "from the envtest archive")):
        directory = cache.version(version)
        yield ProgramFolder(f"the cache, Kubernetes {version} {manifest} ({directory})", directory)


def find_binaries(
    environment: Mapping[str, str], *, home: Path | None = None, exists: Callable[[Path], bool] = is_program
) -> Binaries:
    """Return the programs of the first place that can run a control plane.

    Raises BinariesMissing, with one line that names the places searched and the remedy.
    """
    lenders = tuple(_cache_places(Cache.of(environment, home=home)))
    notes: list[str] = []
    for place in places(environment, home=home):
        lacking = [name for name in (ETCD, APISERVER) if not exists(place.directory / name)]
        if not lacking:
            return _complete(place, lenders, notes, exists)
        if place.words.startswith(ASSETS_VARIABLE):
            notes.append(f"passed over {place.words}, which has no {' and no '.join(lacking)}")
    raise BinariesMissing(_missing_words(environment, home))


def _complete(
    place: ProgramFolder, lenders: tuple[ProgramFolder, ...], notes: list[str], exists: Callable[[Path], bool]
) -> Binaries:
    result: dict[str, Path | None] = {}
    for name in (CONTROLLER_MANAGER, KUBECTL):
        holder = next((item for item in (place, *lenders) if exists(item.directory / name)), None)
        result[name] = holder.directory / name if holder else None
        if holder is None:
            notes.append(f"no {name} ({REMEDY})")
        elif holder != place:
            notes.append(f"{name} lent by {holder.words}")
    return Binaries(
        etcd=place.directory / ETCD,
        kube_apiserver=place.directory / APISERVER,
        kube_controller_manager=result[CONTROLLER_MANAGER],
        kubectl=result[KUBECTL],
        source=place.words,
        notes=tuple(notes),
    )


def _missing_words(environment: Mapping[str, str], home: Path | None) -> str:
    assets = environment.get(ASSETS_VARIABLE, "")
    asked = ", ".join(
        (
            f"{ASSETS_VARIABLE} ({assets or 'not set'})",
            str(SYSTEM_DIRECTORY),
            str(Cache.of(environment, home=home).control_plane),
        )
    )
    return f"no control plane: etcd and kube-apiserver are in none of {asked}; to get them: {REMEDY}"
