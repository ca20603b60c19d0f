"""A pytest plugin: `make test` and `make check` leave out the test kit's own tests if they passed and the kit has not changed since.

The kit is about half of the tests, and most changes do not concern it. A digest of the files that the kit's tests depend on decides. The
files of konverge above the ground floor do not count: CI always runs everything, and so does pytest with paths and without the variable.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "KIT_TESTS"
"""The Makefile sets this environment variable to `changed`; any other value runs the kit's tests."""
_TESTS: Final = "testkit/tests"
_SOURCES: Final = (
    "testkit",
    "tests/support",
    ":(glob)konverge/*.py",
    "conftest.py",
    "pyproject.toml",
    "constraints.txt",
)
"""The files behind the tests of the kit, as git pathspecs. `konverge/*.py` is the ground floor."""
_PASSED: Final = "build/testkit-passed.json"
"""By the options that choose tests and the folder of tests: the digest with which the tests of the folder passed."""
_ALL: Final = "lab=quick"
"""The options of `make test`, which runs every test."""


def files_of(root: Path) -> list[Path]:
    """Return the files that the kit's tests depend on; none outside of a git checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_SOURCES]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else []
    return sorted(path for path in {root / name for name in names if name} if path.is_file())


def digest_of(files: Iterable[Path], root: Path) -> str:
    """Return a digest of the names and contents of files and of the version of Python, "" without any file."""
    digest, some = hashlib.sha256(sys.version.encode()), False
    for path in files:
        some = True
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest() if some else ""


def skipped_folders(root: Path, digest: str, options: str) -> frozenset[str]:
    """Return the folders of the kit's tests that passed with this digest, and with these options or the options of `make test`."""
    passed = _read(root)
    return frozenset(
        folder
        for selection in (_ALL, options)
        for folder, value in passed.get(selection, {}).items()
        if digest and value == digest
    )


def _read(root: Path) -> dict[str, dict[str, str]]:
    try:
        passed: dict[str, dict[str, str]] = json.loads((root / _PASSED).read_text())
    except (OSError, ValueError):
        return {}
    return passed


_FOLDERS = pytest.StashKey[frozenset[str]]()
_DIGEST = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    digest = digest_of(files_of(config.rootpath), config.rootpath)
    left_out = os.environ.get(VARIABLE) == "changed" and not os.environ.get("CI")
    config.stash[_DIGEST] = digest
    config.stash[_FOLDERS] = skipped_folders(config.rootpath, digest, _options(config)) if left_out else frozenset()


def pytest_report_header(config: pytest.Config) -> str | None:
    folders = config.stash[_FOLDERS]
    if not folders:
        return None
    names = ", ".join(f"{_TESTS}/{folder}" for folder in sorted(folders))
    return f"unchanged since they passed, so left out: {names} (pytest {_TESTS} runs them)"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    tests = config.rootpath / _TESTS
    return True if collection_path.parent == tests and collection_path.name in config.stash[_FOLDERS] else None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record the folders whose tests all ran and passed. A selection by names, or an earlier failure, records nothing."""
    config = session.config
    root = config.rootpath
    if exitstatus != 0 or hasattr(config, "workerinput") or _selects(config) or not (root / _TESTS).is_dir():
        return
    passed = _read(root)
    for folder in sorted((root / _TESTS).iterdir()):
        if folder.is_dir() and any(_covers(root / argument, folder) for argument in config.args):
            passed.setdefault(_options(config), {})[folder.name] = config.stash[_DIGEST]
    (root / _PASSED).parent.mkdir(exist_ok=True)
    (root / _PASSED).write_text(json.dumps(passed))


def _covers(argument: Path, folder: Path) -> bool:
    return folder == argument or folder.is_relative_to(argument)


def _options(config: pytest.Config) -> str:
    chosen = {"marks": config.getoption("markexpr", ""), "lab": config.getoption("lab", "")}
    return " ".join(f"{name}={value}" for name, value in chosen.items() if value)


def _selects(config: pytest.Config) -> bool:
    options = ("keyword", "deselect", "lf", "collectonly", "ignore", "ignore_glob")
    return any(bool(config.getoption(option, None)) for option in options)
