"""The fixtures of the tests of the repository itself: one view of the tree, read once.

These tests read files and syntax trees, never the network. They run from the tree only (the sdist and the wheel have neither the links
nor the frame); what must hold for the installed package is in tests/unit and in .ci/test-wheel.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

_NEVER_TRACKED = {".git", ".venv", "build", "dist", "__pycache__"}


@dataclass(frozen=True)
class Source:
    """A Python file of konverge or of its test kit: its import name, its path in the tree, its text and syntax tree."""

    module: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def of_kit(self) -> bool:
        """Whether the file belongs to the test kit."""
        return self.module.partition(".")[0] == "konverge_testing"

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def _files() -> tuple[Path, ...]:
    """Every file that belongs to the repository: what git tracks or would offer to track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not _NEVER_TRACKED & set(path.relative_to(ROOT).parts)]
    return tuple(sorted({path for path in found if path.is_file() and not path.is_symlink()}))


class Tree:
    """The repository as files."""

    root = ROOT

    @cached_property
    def project(self) -> dict[str, Any]:
        return tomllib.loads((ROOT / "pyproject.toml").read_text())

    @cached_property
    def kit_project(self) -> dict[str, Any]:
        return tomllib.loads((ROOT / "testkit/pyproject.toml").read_text())

    @property
    def packages(self) -> list[str]:
        """The packages that pyproject.toml builds."""
        listed: list[str] = self.project["tool"]["setuptools"]["packages"]
        return listed

    @property
    def folders(self) -> dict[str, str]:
        """Package name to folder, as pyproject.toml maps them."""
        mapping: dict[str, str] = self.project["tool"]["setuptools"]["package-dir"]
        return mapping

    @property
    def homes(self) -> dict[str, str]:
        """Package name to folder, of both distributions."""
        return {**self.folders, "konverge_testing": "testkit/konverge_testing"}

    def folder_of(self, package: str) -> Path:
        """The real folder of a package: the longest mapped name, and the rest as folders below."""
        head = package
        tail: list[str] = []
        while head not in self.homes:
            head, _, last = head.rpartition(".")
            tail.insert(0, last)
        return ROOT.joinpath(self.homes[head], *tail)

    def files(self, *suffixes: str) -> Iterator[Path]:
        """Files of the repository, optionally only with these suffixes."""
        return (path for path in _files() if not suffixes or path.suffix in suffixes)

    def below(self, folder: str, *suffixes: str) -> Iterator[Path]:
        """Files of the repository below a folder, with paths from the root."""
        return (path for path in self.files(*suffixes) if path.is_relative_to(ROOT / folder))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Every Python file of both packages, each once and under its import name."""
        rooms = sorted(self.homes.items(), key=lambda item: -len(item[1]))
        found = []
        for path in self.files(".py"):
            room = next(((name, ROOT / folder) for name, folder in rooms if path.is_relative_to(ROOT / folder)), None)
            if room is None:
                continue
            inside = path.relative_to(room[1]).with_suffix("").parts
            parts = inside[:-1] if inside[-1] == "__init__" else inside
            found.append(Source(".".join((room[0], *parts)), path, path.read_text()))
        return tuple(found)

    def load(self, path: str) -> Any:
        """Import one of the repository's own tools from its file."""
        name = "konverge_tool_" + path.replace("/", "_").removesuffix(".py")
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, ROOT / path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]


@pytest.fixture(scope="session")
def tree() -> Tree:
    return Tree()


@pytest.fixture
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty project the current folder, and return it; its pytest loads no plugins."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path
