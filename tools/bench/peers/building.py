"""The programs of the contestants and the stand-in of the server: built once for a machine into the cache of konverge, from pinned sources.

Guarantees: a program appears whole or not at all, in a folder named after its sources. If a toolchain is absent or a build fails,
`programs` reports it in one line and leaves that program out. Nothing is written into the tree.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from peers.installed import interpreter

from konverge_testing.binaries import Cache, is_program

BENCH = Path(__file__).resolve().parent.parent
STAND_IN = "standin"
PYTHON = "python"
BUILD_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one program is built; `made` is the path of the result, below the output folder."""

    folder: str
    tool: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    made: str


_GO = ("go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", "{out}/peer", ".")
_GO_VARIABLES = {"CGO_ENABLED": "0", "GOWORK": "off", "GOCACHE": "{cache}/go-build"}

RECIPES = {
    STAND_IN: Recipe("standin", "go", _GO, _GO_VARIABLES, "peer"),
    "go": Recipe("baselines/controller_runtime", "go", _GO, _GO_VARIABLES, "peer"),
    "rust": Recipe(
        "baselines/kube_rs",
        "cargo",
        ("cargo", "build", "--release", "--locked"),
        {"CARGO_TARGET_DIR": "{cache}/cargo-target"},
        "{cache}/cargo-target/release/peer",
    ),
}


def fingerprint(recipe: Recipe) -> str:
    """The name of the state of a program's sources."""
    digest = hashlib.sha256(repr((recipe.command, sorted(recipe.variables.items()))).encode())
    source = BENCH / recipe.folder
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def programs(wanted: set[str], environment: Mapping[str, str], tell: Callable[[str], None]) -> dict[str, Path]:
    """The programs, by "go", "rust", "standin" and "python" (an interpreter); prints one line for each program that could not be built."""
    result = {}
    for name in sorted(wanted & {PYTHON, *RECIPES}):
        try:
            result[name] = (
                interpreter(environment, tell) if name == PYTHON else _program(name, RECIPES[name], environment, tell)
            )
        except (FileNotFoundError, subprocess.SubprocessError) as error:
            tell(f"skipped: {_what(name)} ({error})")
    return result


def _what(name: str) -> str:
    return "the stand-in of the server" if name == STAND_IN else f"the contestants in {name}"


def _program(name: str, recipe: Recipe, environment: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    root = Cache.of(environment).root / "peers"
    home, cache = root / f"{name}-{fingerprint(recipe)}", root / f"{name}.build"
    if is_program(home / "peer"):
        return home / "peer"
    if shutil.which(recipe.tool, path=environment.get("PATH")) is None:
        raise FileNotFoundError(f"no {recipe.tool} in PATH, and no program built before")
    cache.mkdir(parents=True, exist_ok=True)
    # Each program has its own lock and its own cache: a build of minutes holds up no other program.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_program(home / "peer"):
            tell(f"building {_what(name)} into {home} (once for this machine; some minutes)")
            _build(recipe, cache, home, environment)
    return home / "peer"


def _build(recipe: Recipe, cache: Path, home: Path, environment: Mapping[str, str]) -> None:
    partial = home.with_name(f"{home.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    put = {"out": str(partial), "cache": str(cache)}
    variables = {key: value.format(**put) for key, value in recipe.variables.items()}
    log = cache / "log"
    with log.open("wb") as output:
        code = subprocess.run(
            [word.format(**put) for word in recipe.command],
            cwd=BENCH / recipe.folder,
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
            check=False,
        ).returncode
    if code:
        last = (log.read_text(errors="replace").splitlines() or ["no word"])[-1]
        raise subprocess.SubprocessError(f"the build failed: {last}; all of it is in {log}")
    path = Path(recipe.made.format(**put))
    if path.is_absolute():
        shutil.copy2(path, partial / "peer")
    partial.rename(home)
    for used in ("go-build", "cargo-target"):  # gigabytes that are no longer needed
        shutil.rmtree(cache / used, ignore_errors=True)
