"""Compare a wheel and an sdist with the tree: `python tools/check_wheel.py WHEEL SDIST [FOLDER]`; FOLDER has the pyproject.toml.

Guarantees: the wheel holds exactly the package's sources and its declared data, each under its import name and byte for byte as in the
tree; the sdist holds each of them once, under its folder in the tree. Exit code 1 with one line per difference.

The symbolic links require this check: a build that follows them packs a room twice, and a build that does not packs it not at all.
"""

import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def folder_of(package: str, mapping: Mapping[str, str]) -> str:
    """Return the folder of a package: the longest mapped name counts, the rest is folders below."""
    head, _, last = package.rpartition(".")
    return mapping[package] if package in mapping else f"{folder_of(head, mapping)}/{last}"


def packages_of(root: Path, setup: Mapping[str, Any]) -> dict[str, Path]:
    """Return the folder of each package; without a list, setuptools finds the folders with an __init__.py that match a pattern."""
    if isinstance(setup["packages"], list):
        return {package: root / folder_of(package, setup["package-dir"]) for package in setup["packages"]}
    patterns = setup["packages"]["find"]["include"]
    folders = [path.parent for pattern in patterns for path in root.glob(f"{pattern}/**/__init__.py")]
    return {".".join(folder.relative_to(root).parts): folder for folder in folders}


def wanted(root: Path) -> dict[str, Path]:
    """Return what the wheel should hold: the name inside it, and the file in the tree."""
    setup = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    result = {}
    for package, folder in packages_of(root, setup).items():
        for pattern in ("*.py", *setup["package-data"].get(package, ())):
            for path in folder.glob(pattern):
                result[f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}"] = path
    return result


def differences(expected: Mapping[str, bytes], present: Mapping[str, bytes]) -> Iterator[str]:
    """Return a line for each file that is missing, unexpected or different."""
    for name in sorted({*expected, *present}):
        if name not in present:
            yield f"missing: {name}"
        elif name not in expected:
            yield f"not of the tree: {name}"
        elif expected[name] != present[name]:
            yield f"different: {name}"


def in_wheel(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel, its metadata aside."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}


def in_sdist(path: Path, folders: Sequence[str]) -> dict[str, bytes]:
    """Return the files of an sdist below these folders, named as in the tree."""
    with tarfile.open(path) as sdist:
        files = {member.name.partition("/")[2]: member for member in sdist.getmembers() if member.isfile()}
        contents = {
            name: sdist.extractfile(member) for name, member in files.items() if name.startswith(tuple(folders))
        }
        return {name: content.read() for name, content in contents.items() if content is not None}


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Compare; return the exit code."""
    if len(arguments) not in (2, 3):
        print("usage: python tools/check_wheel.py WHEEL SDIST [FOLDER]", file=sys.stderr)
        return 2
    wheel, sdist = map(Path, arguments[:2])
    root = Path(arguments[2]) if len(arguments) == 3 else root
    expected = wanted(root)
    setup = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = sorted({f"{folder.relative_to(root).as_posix()}/" for folder in packages_of(root, setup).values()})
    as_wheel = {name: path.read_bytes() for name, path in expected.items()}
    as_sdist = {path.relative_to(root).as_posix(): path.read_bytes() for path in expected.values()}
    lines = [f"{wheel.name}: {line}" for line in differences(as_wheel, in_wheel(wheel))]
    lines += [f"{sdist.name}: {line}" for line in differences(as_sdist, in_sdist(sdist, folders))]
    print(
        "\n".join(lines)
        or f"--> {wheel.name} and {sdist.name} hold the {len(expected)} files of the package, each once"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
