"""A pytest plugin: `make test` and `make check` leave out folders of tests that passed and whose sources have not changed since.

Two kinds of folders are in the table: the test kit's own tests, which are about a third of the suite's time, and the scenarios and
end-to-end tests of each family, another third. Most changes concern neither the kit nor another family. A digest of the files that a folder's
tests depend on decides. CI always runs everything, and so does pytest without the variable.

Caveats: the files of konverge above the ground floor do not count for the kit's tests.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import pytest

VARIABLE: Final = "TESTS"
"""The Makefile sets this environment variable to `changed`; any other value runs every folder."""
_PASSED: Final = "build/tests-passed.json"
"""By the options that choose tests and the folder of tests: the digest with which the tests of the folder passed."""
_ALL: Final = "lab=quick"
"""The options of `make test`, which runs every test."""

Sources: TypeAlias = tuple[str, ...]
"""Files and folders, as git pathspecs."""

_COMMON: Final[Sources] = ("tests/support", "conftest.py", "pyproject.toml", "constraints.txt")
_KIT: Final[Sources] = (*_COMMON, "testkit", ":(glob)konverge/*.py")
"""`konverge/*.py` is the ground floor."""
_KIT_FOLDERS: Final = ("conformance", "e2e", "property", "scenarios", "unit")
_LIBRARY: Final[Sources] = (
    *(*_COMMON, "testkit/konverge_testing", "konverge", "informers", "workqueue", "crds", "cmd"),
    "reconcilers/shared",
)
_FAMILIES: Final[Mapping[str, Sources]] = {
    "tests/e2e/machines": ("reconcilers/machines", "deploy/cluster-api", "tools/other_languages.py"),
    "tests/e2e/pools": ("reconcilers/pools",),
    "tests/scenarios/apps": ("reconcilers/apps",),
    "tests/scenarios/clusters": ("reconcilers/clusters",),
    "tests/scenarios/machines": ("reconcilers/machines", "docs/guide"),
    "tests/scenarios/operations": ("reconcilers/apps",),
    "tests/scenarios/pools": ("reconcilers/pools", "docs/guide"),
    "tests/scenarios/quota": ("reconcilers/quota",),
    "tests/scenarios/workspaces": ("reconcilers/workspaces",),
}
SOURCES: Final[Mapping[str, Sources]] = {
    **{f"testkit/tests/{name}": _KIT for name in _KIT_FOLDERS},
    **{folder: (*_LIBRARY, folder, *own) for folder, own in _FAMILIES.items()},
}
"""The folders that may be left out, and the files that their tests depend on."""


def files_of(root: Path, sources: Sources) -> list[Path]:
    """Return the files of these sources; none outside of a git checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *sources]
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


def digests_of(root: Path) -> dict[str, str]:
    """Return the digest of each folder of the table that exists."""
    by_sources: dict[Sources, str] = {}
    digests = {}
    for folder, sources in SOURCES.items():
        if (root / folder).is_dir():
            if sources not in by_sources:
                by_sources[sources] = digest_of(files_of(root, sources), root)
            digests[folder] = by_sources[sources]
    return digests


def skipped_folders(root: Path, digests: Mapping[str, str], options: str) -> frozenset[str]:
    """Return the folders whose tests passed with these digests, and with these options or the options of `make test`."""
    passed = _read(root)
    return frozenset(
        folder
        for selection in (_ALL, options)
        for folder, value in passed.get(selection, {}).items()
        if value and value == digests.get(folder)
    )


def _read(root: Path) -> dict[str, dict[str, str]]:
    try:
        passed: dict[str, dict[str, str]] = json.loads((root / _PASSED).read_text())
    except (OSError, ValueError):
        return {}
    return passed


_FOLDERS = pytest.StashKey[frozenset[str]]()
_DIGESTS = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    digests = digests_of(config.rootpath)
    folders: frozenset[str] = frozenset()
    if os.environ.get(VARIABLE) == "changed" and not os.environ.get("CI"):
        folders = skipped_folders(config.rootpath, digests, _options(config))
    config.stash[_DIGESTS] = digests
    config.stash[_FOLDERS] = folders


def pytest_report_header(config: pytest.Config) -> str | None:
    left_out = config.stash[_FOLDERS]
    if not left_out:
        return None
    folders = sorted(left_out)
    return f"unchanged since they passed, so left out: {', '.join(folders)} (pytest {folders[0]} runs the first one)"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not collection_path.is_relative_to(config.rootpath):
        return None
    return True if collection_path.relative_to(config.rootpath).as_posix() in config.stash[_FOLDERS] else None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record the folders whose tests all ran and passed. A selection by names, or a failure, records nothing."""
    config = session.config
    root = config.rootpath
    if exitstatus != 0 or hasattr(config, "workerinput") or _selects(config):
        return
    passed = _read(root)
    for folder, digest in config.stash[_DIGESTS].items():
        if any((root / folder).is_relative_to(root / argument) for argument in config.args):
            passed.setdefault(_options(config), {})[folder] = digest
    if passed:
        (root / _PASSED).parent.mkdir(exist_ok=True)
        (root / _PASSED).write_text(json.dumps(passed))


def _options(config: pytest.Config) -> str:
    chosen = {"marks": config.getoption("markexpr", ""), "lab": config.getoption("lab", "")}
    return " ".join(f"{name}={value}" for name, value in chosen.items() if value)


def _selects(config: pytest.Config) -> bool:
    options = ("keyword", "deselect", "lf", "collectonly", "ignore", "ignore_glob")
    return any(bool(config.getoption(option, None)) for option in options)
