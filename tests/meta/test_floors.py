"""A room imports only from lower floors, and the check of this rule follows the links."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

PLANTED = {
    "the queue reaches up to the informers": ("workqueue/__init__.py", "import konverge.informers"),
    "the informers reach across to the queue": ("informers/__init__.py", "import konverge.workqueue"),
    "a family reaches across to another": ("reconcilers/quota/words.py", "import konverge.reconcilers.apps"),
    "code of several families reaches up to a family": (
        "reconcilers/shared/durations.py",
        "import konverge.reconcilers.apps",
    ),
    "a family reaches up to the daemon": ("reconcilers/__init__.py", "import konverge.daemon"),
    "the runtime reaches for the test kit": ("konverge/runtime/__init__.py", "import konverge_testing"),
    "the ground floor reaches up to the client": ("konverge/keys.py", "import konverge.client"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its configuration in a folder of their own, links as links."""
    folder = tmp_path_factory.mktemp("floors")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in (
        "konverge",
        "cmd",
        "testkit",
        *(room for room in tree.folders.values() if "/" not in room and room != "konverge"),
    ):
        shutil.copytree(tree.root / name, folder / name, symlinks=True, ignore=ignore)
    shutil.copy(tree.root / "pyproject.toml", folder)
    return folder


def test_runtime_folders_are_listed_in_the_order_of_their_contract(tree: Tree) -> None:
    contracts = tomllib.loads((tree.root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == ["konverge.runtime"]]
    floors = {folder: floor for floor, layer in enumerate(layers) for folder in layer.split(" | ")}
    table = (tree.root / "ARCHITECTURE.md").read_text().partition("upper floors first")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(floors)
    assert listed == sorted(listed, key=lambda folder: floors[folder])


def test_no_room_imports_from_a_higher_floor(tree: Tree) -> None:
    done = lint(tree.root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_caught_through_the_links(copy: Path, case: str) -> None:
    name, line = PLANTED[case]
    path = copy / name
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")
    try:
        done = lint(copy)
    finally:
        path.write_text(before)
    assert done.returncode == 1, f"{case}: {done.stdout}{done.stderr}"
    assert "BROKEN" in done.stdout
