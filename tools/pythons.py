"""Run the unit tests of the library's rooms and of the test kit on each supported Python of this machine: `make pythons`.

    make pythons                                      # Pythons in PATH, of pyenv and of uv
    make pythons PYTHONS="/opt/musl/bin/python3"      # further interpreters, built with musl for instance
    make pythons ONLY=3.12                            # one version
    make pythons ARGS="-k session"                    # for pytest

Each interpreter gets an environment of its own from the wheels of the tree; the tests run in a folder from which the tree cannot be imported.
Packages are kept in the cache of `.ci/venv`. The last lines name each run, and each version or C library that the machine lacks. Exit code 1:
a test failed, or no interpreter ran the tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("client", "informers", "workqueue", "runtime", "crds")
TESTS = (*(f"tests/unit/{room}" for room in ROOMS), "testkit/tests/unit")
TOOLS = ("hypothesis", "pytest-timeout", "pytest-xdist", "trustme")
GLIBC, MUSL, MACOS = "glibc", "musl", "macOS"
NO_WHEEL = {MUSL: frozenset({"cel-expr-python"})}
"""The dependencies of the test kit without a wheel for a C library and without a source. Tests of CEL expressions are left out there."""

_COPIED = ("tests", "tools", "examples", "docs", "testkit/tests", "testkit/docs")
_PROBE = """\
import json, sys, sysconfig, venv
libc = "macOS" if sys.platform == "darwin" else "musl" if "musl" in str(sysconfig.get_config_var("SOABI")) else "glibc"
print(json.dumps([sys.executable, "%d.%d" % sys.version_info[:2], sys.version.split()[0], libc, sys.implementation.cache_tag]))
"""
_CLOSING = re.compile(r"^=* ?((?:\d+ [a-z]+,? ?)+in [0-9.]+s)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, as it describes itself."""

    path: str
    version: str
    """The version without its last part, for instance 3.13."""
    release: str
    libc: str
    cache_tag: str

    @property
    def title(self) -> str:
        """The name in the report."""
        return f"Python {self.release} ({self.libc})"


def supported(root: Path = ROOT) -> list[str]:
    """Return the versions of the classifiers, the oldest first."""
    classifiers = tomllib.loads((root / "pyproject.toml").read_text())["project"]["classifiers"]
    return [line.rpartition(" ")[2] for line in classifiers if re.search(r"Python :: 3\.\d+$", line)]


def selected(versions: Sequence[str], only: str) -> list[str]:
    """Return the versions named in `only`, or all if it is empty; raises ValueError for a version that is not supported."""
    names = only.split() or list(versions)
    if unknown := sorted(set(names) - set(versions)):
        raise ValueError(f"ONLY={only}: {unknown[0]} is not among the supported versions {', '.join(versions)}")
    return [version for version in versions if version in names]


def candidates(versions: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield paths that may be interpreters: $PYTHONS, then PATH, then pyenv's and uv's folders."""
    yield from environment.get("PYTHONS", "").split()
    home = Path(environment.get("HOME", "/"))
    pyenv = Path(environment.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(environment.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    for version in versions:
        yield from filter(None, [shutil.which(f"python{version}", path=environment.get("PATH", ""))])
        yield from map(str, sorted(pyenv.glob(f"{version}.*/bin/python3"), reverse=True))
        yield from map(str, sorted(uv.glob(f"cpython-{version}.*/bin/python3"), reverse=True))


def probe(path: str) -> Interpreter | None:
    """Return the description of an interpreter that can create environments; None for any other path, such as a shim that is off."""
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=True, timeout=60)
        return Interpreter(*json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None


def chosen(paths: Iterable[str], versions: Sequence[str]) -> list[Interpreter]:
    """Return the first interpreter of each supported version and C library, the oldest version first."""
    first: dict[tuple[str, str], Interpreter] = {}
    for interpreter in filter(None, map(probe, paths)):
        if interpreter.version in versions:
            first.setdefault((interpreter.version, interpreter.libc), interpreter)
    return sorted(first.values(), key=lambda each: (versions.index(each.version), each.libc))


def absent(interpreters: Iterable[Interpreter], versions: Iterable[str]) -> list[str]:
    """Return a line for each supported version, C library or system that no interpreter has."""
    known = list(interpreters)
    missing = [version for version in versions if version not in {each.version for each in known}]
    lines = [f"Python {version}: not on this machine; install it, or name it in PYTHONS=" for version in missing]
    if MUSL not in {each.libc for each in known}:
        lines.append("musl: no Python of this machine is built with musl; name one in PYTHONS=, or run this on Alpine")
    if MACOS not in {each.libc for each in known}:
        lines.append("macOS: this machine runs another system; run `make pythons` on a Mac")
    return lines


def requirements(libc: str, root: Path = ROOT) -> list[str]:
    """Return what is installed beside the wheels of the tree for a C library."""
    own = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    kit = tomllib.loads((root / "testkit/pyproject.toml").read_text())["project"]
    extras = [line for name in ("machines", "otel", "pools") for line in own["optional-dependencies"][name]]
    left_out = {"konverge", *NO_WHEEL.get(libc, ())}
    lines = [*own["dependencies"], *extras, *kit["dependencies"], *TOOLS]
    return [line for line in lines if Requirement(line).name not in left_out]


class _Failed(Exception):
    """A command failed; the text is the end of its output."""


def _run(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise _Failed("\n".join((done.stdout + done.stderr).strip().splitlines()[-5:]))


def install(interpreter: Interpreter, folder: Path, wheels: Sequence[Path]) -> Path:
    """Create an environment in the folder and return its interpreter; raises _Failed if a package cannot be had."""
    suffix = "" if interpreter.libc == GLIBC else f"-{interpreter.libc}"
    cache = Path(
        os.environ.get("KONVERGE_CACHE", Path.home() / ".cache/konverge"), "wheels", interpreter.cache_tag + suffix
    )
    cache.mkdir(parents=True, exist_ok=True)
    _run(interpreter.path, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python)
    options = ("--constraint", ROOT / "constraints.txt", "--find-links", cache)
    names = requirements(interpreter.libc)
    try:
        _run(*pip, "install", "--no-index", *options, *names)
    except _Failed:
        _run(*pip, "wheel", "--wheel-dir", cache, "--prefer-binary", *options, *names)
        _run(*pip, "install", "--no-index", *options, *names)
    _run(*pip, "install", "--no-index", "--no-deps", *wheels)
    return python


def copied(folder: Path) -> None:
    """Copy what the tests read beside the packages."""
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)


def test(python: Path, folder: Path, libc: str, arguments: Sequence[str]) -> tuple[bool, str]:
    """Run the tests and print their output; returns whether they passed, and the closing line of pytest."""
    left_out = [f"--ignore={folder}/testkit/tests/unit/apiserver/cel"] if libc in NO_WHEEL else []
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *left_out, *TESTS, *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.stdout.write(done.stdout)
    closing = _CLOSING.findall(done.stdout)
    return done.returncode == 0, closing[-1] if closing else f"pytest ended with exit code {done.returncode}"


def main(arguments: Sequence[str]) -> int:
    """Run the tests on each interpreter, and print what ran and what could not."""
    try:
        versions = selected(supported(), os.environ.get("ONLY", ""))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    interpreters = chosen(candidates(versions, os.environ), versions)
    if not interpreters:
        print("\n".join(absent(interpreters, versions)))
        return 1
    lines, results = list[str](), list[bool]()
    with tempfile.TemporaryDirectory(prefix="konverge-pythons-") as name:
        scratch = Path(name)
        _run(ROOT / ".ci/dist", scratch / "dist")
        copied(scratch / "away")
        for number, interpreter in enumerate(interpreters):
            print(f"--> {interpreter.title}: {interpreter.path}", flush=True)
            try:
                python = install(interpreter, scratch / f"venv-{number}", sorted((scratch / "dist").glob("*.whl")))
            except _Failed as error:
                lines.append(f"{interpreter.title}: its packages could not be had: {error}")
                continue
            success, closing = test(python, scratch / "away", interpreter.libc, arguments)
            results.append(success)
            lines.append(f"{interpreter.title}: {closing}")
    print("\n".join(["", *lines, *absent(interpreters, versions)]))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
