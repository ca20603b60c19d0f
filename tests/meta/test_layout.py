"""The rooms at the root, the links to them, and the packaging map are equal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

ROOMS = {
    "charts": "charts",
    "crds": "crds",
    "daemon": "cmd/konverged",
    "informers": "informers",
    "reconcilers": "reconcilers",
    "workqueue": "workqueue",
}
"""Link in konverge/ to room."""


def python(code: str, *, cwd: Path, first: Path | None = None) -> str:
    """Run code in a fresh interpreter, with a folder put first on the path, and return what it printed."""
    head = f"import sys; sys.path.insert(0, {str(first)!r})\n" if first else ""
    done = subprocess.run([sys.executable, "-c", head + code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_of_packages_equals_the_tree(tree: Tree) -> None:
    folders_with_code = {source.path.parent for source in tree.sources if not source.of_kit}
    listed = {tree.folder_of(package): package for package in tree.packages}
    assert {str(folder.relative_to(tree.root)) for folder in folders_with_code} == {
        str(folder.relative_to(tree.root)) for folder in listed
    }, "add the folder to [tool.setuptools] packages in pyproject.toml, or remove its line"
    assert len(listed) == len(tree.packages)
    assert tree.packages == sorted(tree.packages)


def test_every_package_has_an_init_file(tree: Tree) -> None:
    assert [package for package in tree.packages if not (tree.folder_of(package) / "__init__.py").is_file()] == []


def test_each_room_at_the_root_is_mapped_and_linked(tree: Tree) -> None:
    assert tree.folders == {
        "konverge": "konverge",
        **{f"konverge.{name}": folder for name, folder in ROOMS.items()},
    }
    links = {path.name: str(path.readlink()) for path in (tree.root / "konverge").iterdir() if path.is_symlink()}
    assert links == {name: f"../{folder}" for name, folder in ROOMS.items()}
    assert all((tree.root / "konverge" / name).resolve() == tree.root / folder for name, folder in ROOMS.items())


def test_every_pattern_of_package_data_finds_a_file(tree: Tree) -> None:
    data = tree.project["tool"]["setuptools"]["package-data"]
    unused = [
        f"{package}: {pattern}"
        for package, patterns in data.items()
        for pattern in patterns
        if not any(tree.folder_of(package).glob(pattern))
    ]
    assert not unused, "\n".join(unused)


def test_every_file_beside_the_sources_is_packed(tree: Tree) -> None:
    packed = {
        path
        for package, patterns in tree.project["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in tree.folder_of(package).glob(pattern)
    }
    beside = {
        path
        for package in tree.packages
        for path in tree.below(str(tree.folder_of(package).relative_to(tree.root)))
        if path.suffix not in {".py", ".md"}
    }
    assert {str(path.relative_to(tree.root)) for path in beside - packed} == set()


def test_git_ignores_no_file_of_the_package(tree: Tree) -> None:
    folders = sorted(set(tree.folders.values()))
    status = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders],
        cwd=tree.root,
        capture_output=True,
        text=True,
        check=False,
    )
    if status.returncode != 0:
        assert not (tree.root / ".git").exists(), status.stderr
        return
    ignored = [name for name in status.stdout.splitlines() if "__pycache__" not in name]
    assert not ignored, "\n".join(("a pattern of .gitignore hides files that the package needs", *ignored))


def test_the_standard_library_keeps_its_cmd_and_pdb(tree: Tree) -> None:
    assert not (tree.root / "cmd" / "__init__.py").exists()
    code = (
        "import cmd, json, pdb; print(json.dumps([cmd.__file__, pdb.Pdb.__mro__[2].__module__, hasattr(cmd, 'Cmd')]))"
    )
    where, base, whole = json.loads(python(code, cwd=tree.root, first=tree.root))
    assert not Path(where).is_relative_to(tree.root)
    assert (base, whole) == ("cmd", True)


def test_a_room_refuses_to_be_imported_under_a_second_name(tree: Tree) -> None:
    code = """
import importlib, json
said = {}
for name in sys.argv[1:] or %r:
    try:
        importlib.import_module(name)
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""
    names = [Path(folder).name for folder in ROOMS.values()]
    first = f"sys.path.insert(0, {str(tree.root / 'cmd')!r})\n"
    said = json.loads(python(first + code % names, cwd=tree.root, first=tree.root))
    assert set(said) == set(names), "these rooms could be imported twice, and isinstance across the copies is False"
    for link, folder in ROOMS.items():
        words = said[Path(folder).name]
        assert f"import konverge.{link}" in words, words


def test_the_rooms_import_by_their_one_name_from_the_root(tree: Tree) -> None:
    names = [f"konverge.{link}" for link in ROOMS]
    code = f"import importlib, json; print(json.dumps([importlib.import_module(n).__name__ for n in {names!r}]))"
    assert json.loads(python(code, cwd=tree.root, first=tree.root)) == names
