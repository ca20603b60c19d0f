"""The tool that compares wheel and sdist with the tree detects every error of links. CI runs it on the real wheel and sdist."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

PROJECT = """
[tool.setuptools]
packages = ["house", "house.room"]
[tool.setuptools.package-dir]
"house" = "house"
"house.room" = "room"
[tool.setuptools.package-data]
"house.room" = ["data/*.yaml"]
"""

WHEEL = {"house/__init__.py": "1", "house/room/__init__.py": "2", "house/room/data/a.yaml": "3"}
SDIST = {"house/__init__.py": "1", "room/__init__.py": "2", "room/data/a.yaml": "3"}


@pytest.fixture
def tool(tree: Tree) -> Any:
    return tree.load("tools/check_wheel.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name, text in SDIST.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "house" / "room").symlink_to("../room")
    return tmp_path


def build(root: Path, wheel: dict[str, str], sdist: dict[str, str]) -> list[str]:
    paths = [root / "house-1-py3-none-any.whl", root / "house-1.tar.gz"]
    with zipfile.ZipFile(paths[0], "w") as archive:
        for name, text in {**wheel, "house-1.dist-info/METADATA": ""}.items():
            archive.writestr(name, text)
    with tarfile.open(paths[1], "w:gz") as tarball:
        for name, text in {**sdist, "pyproject.toml": PROJECT}.items():
            member = tarfile.TarInfo(f"house-1/{name}")
            member.size = len(text)
            tarball.addfile(member, io.BytesIO(text.encode()))
    return [str(path) for path in paths]


def test_a_whole_wheel_and_sdist_pass(tool: Any, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(build(root, WHEEL, SDIST), root) == 0
    assert "hold the 3 files of the package" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wheel", "sdist", "said"),
    [
        ({"house/__init__.py": "1"}, SDIST, "missing: house/room/__init__.py"),
        ({**WHEEL, "room/__init__.py": "2"}, SDIST, "not of the tree: room/__init__.py"),
        ({**WHEEL, "house/room/data/a.yaml": "old"}, SDIST, "different: house/room/data/a.yaml"),
        (WHEEL, {**SDIST, "house/room/__init__.py": "2"}, "not of the tree: house/room/__init__.py"),
        (WHEEL, {"house/__init__.py": "1"}, "missing: room/__init__.py"),
    ],
    ids=[
        "a room is lacking",
        "a room is packed at the root",
        "stale data",
        "a link is followed",
        "a room not in the sdist",
    ],
)
def test_a_difference_is_named_and_fails(
    tool: Any, root: Path, capsys: pytest.CaptureFixture[str], wheel: dict[str, str], sdist: dict[str, str], said: str
) -> None:
    assert tool.main(build(root, wheel, sdist), root) == 1
    assert said in capsys.readouterr().out


def test_every_source_and_data_file_of_the_tree_is_wanted(tool: Any, tree: Tree) -> None:
    wanted = tool.wanted(tree.root)
    of_kit = tool.wanted(tree.root / "testkit")
    assert {*wanted.values(), *of_kit.values()} >= {source.path for source in tree.sources}
    assert "konverge/py.typed" in wanted
    assert "konverge_testing/py.typed" in of_kit
    assert {name.partition("/")[0] for name in wanted} == {"konverge"}
    assert "konverge/workqueue/__init__.py" in wanted
