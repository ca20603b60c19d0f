"""The examples in Go, Rust and JavaScript, and programs of tests, built once for a machine: `python tools/other_languages.py [NAME ...]`.

Guarantees: versions are locked by the files beside the sources, and nothing is written into the tree. A build appears in the cache of
`konverge control-plane install` whole or not at all, in a folder named after its sources; a second session waits for the build of
the first. A missing toolchain, or a registry that does not respond, is `BinariesMissing`; a build that fails is `InstallFailed`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from konverge_testing.binaries import Cache
from konverge_testing.failures import BinariesMissing, ControlPlaneError, InstallFailed, build_failure

_ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = _ROOT / "examples" / "other-languages"
BUILD_SECONDS = 900
"""The longest that a build may take; Go and Rust take two to five minutes each, JavaScript seconds."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the example of one language, or another program, is built: in a copy of its folder, with a cache of its own, which is removed
    afterwards.

    `fetch` downloads the locked dependencies, `build` compiles; `made` is a pattern of the result, below the folder of the
    copies (`NAME.source`) and of the caches (`NAME.cache`).
    """

    tool: str
    fetch: tuple[str, ...]
    build: tuple[str, ...]
    variables: Mapping[str, str]
    made: str
    inputs: str = "**/*"
    """The files that a build depends on."""
    home: str = field(default="", repr=False)
    """The folder of a program other than the examples, below the repository's folder."""

    def what(self, name: str) -> str:
        """Return the name of the build, for messages."""
        return f"the program {name}" if self.home else f"the example in {name}"

    def folder(self, name: str) -> Path:
        """Return the folder of the sources."""
        return _ROOT / self.home if self.home else EXAMPLES / name


RECIPES: Mapping[str, Recipe] = {
    "go": Recipe(
        "go",
        ("go", "list", "-mod=readonly", "-deps", "-test", "."),
        ("go", "test", "-c", "-mod=readonly", "-vet=off", "-ldflags=-s -w", "-o", "widgets.test", "."),
        {"CGO_ENABLED": "0", "GOWORK": "off", "GOCACHE": "{cache}"},
        "go.source/widgets.test",
    ),
    "javascript": Recipe(
        "npm",
        (
            "npm",
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--fetch-retries=1",
            "--fetch-retry-mintimeout=3000",
        ),
        (),
        {},
        "javascript.source/node_modules",
        inputs="package*.json",
    ),
    "rust": Recipe(
        "cargo",
        ("cargo", "fetch", "--locked"),
        ("cargo", "test", "--no-run", "--locked", "--offline", "--test", "widgets"),
        {"CARGO_TARGET_DIR": "{cache}"},
        "rust.cache/debug/deps/widgets-*",
    ),
}

"""The examples, by language."""

ALL: Mapping[str, Recipe] = {
    **RECIPES,
    "page-kubebuilder": replace(
        RECIPES["go"],
        fetch=("go", "list", "-mod=readonly", "-deps", "."),
        build=("go", "build", "-mod=readonly", "-ldflags=-s -w", "-o", "manager", "."),
        made="page-kubebuilder.source/manager",
        home="examples/page_kubebuilder",
    ),
    "page-kube-rs": replace(
        RECIPES["rust"],
        build=("cargo", "build", "--locked", "--offline"),
        made="page-kube-rs.cache/debug/pages",
        home="examples/page_kube_rs",
    ),
    "nstance-on-grpc-js": replace(
        RECIPES["javascript"], made="nstance-on-grpc-js.source/node_modules", home="tests/support/nstance_grpc_js"
    ),
}
"""All that is built."""


def cached(language: str, environment: Mapping[str, str]) -> Path | None:
    """Return the folder of a language's build, with `program` or `node_modules` in it; None if there is none."""
    home = Cache.of(environment).root / "other-languages" / f"{language}-{_fingerprint(language)}"
    return home if home.is_dir() else None


def built(language: str, environment: Mapping[str, str], *, tell: Callable[[str], None]) -> Path:
    """Return the folder of a language's build; if there is none, reports that and builds it first."""
    result = cached(language, environment)
    if result is not None:
        return result
    recipe = ALL[language]
    tool = recipe.tool
    if shutil.which(tool, path=environment.get("PATH")) is None:
        raise BinariesMissing(f"{recipe.what(language)} needs {tool}, and PATH has no {tool}")
    cache = Cache.of(environment).root / "other-languages"
    with _locked(cache / f"{language}.lock"):
        home = cache / f"{language}-{_fingerprint(language)}"
        if not home.is_dir():
            tell(f"building {recipe.what(language)} into {home} (once for this machine)")
            _build(language, environment, cache, home)
    return home


def _fingerprint(language: str) -> str:
    recipe = ALL[language]
    folder = recipe.folder(language)
    digest = hashlib.sha256(repr(recipe).encode())
    for path in sorted(path for path in folder.glob(recipe.inputs) if path.is_file()):
        digest.update(str(path.relative_to(folder.parent)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(language: str, environment: Mapping[str, str], cache: Path, home: Path) -> None:
    recipe = ALL[language]
    compiled, copy, partial = (cache / f"{language}.{part}" for part in ("cache", "source", "part"))
    for folder in (copy, partial):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(recipe.folder(language), copy)
    partial.mkdir()
    variables = {key: value.format(cache=compiled) for key, value in recipe.variables.items()}
    _run(recipe.fetch, copy, {**environment, **variables}, BinariesMissing)
    if recipe.build:
        _run(recipe.build, copy, {**environment, **variables}, InstallFailed)
    manifest = next(
        path for path in cache.glob(recipe.made) if path.suffix != ".d"
    )  # Cargo writes its list of dependencies beside it
    manifest.rename(partial / ("node_modules" if manifest.is_dir() else "program"))
    partial.rename(home)
    for folder in (compiled, copy):
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], error: type[ControlPlaneError]) -> None:
    words = " ".join(command[:2])
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallFailed(
            f"{words} took longer than {BUILD_SECONDS} s and was ended; run it again when the machine is less busy"
        ) from None
    if done.returncode:
        raise error(build_failure(f"{words} in {folder.stem}", (done.stdout + done.stderr).splitlines()))


def main(languages: Sequence[str]) -> int:
    """Build what is missing, and print the builds; returns 1 if a build failed."""
    lacking = 0
    for language in languages or ALL:
        try:
            print(f"{ALL[language].what(language)}: {built(language, os.environ, tell=print)}", flush=True)
        except (ControlPlaneError, OSError) as error:
            lacking = 1
            print(error, file=sys.stderr, flush=True)
    return lacking


if __name__ == "__main__":  # so that a program can be built before the tests
    sys.exit(main(sys.argv[1:]))
