"""Writes the CustomResourceDefinitions of our own kinds into `crds/manifests/`: `python -m konverge.crds.generate [--check]`.

Guarantees: a file per definition, named after it; a file without a definition is removed. With `--check` nothing is written, and the
exit code is 1 if a file differs from the models. `outdated` is pure.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from konverge.crds.catalogue import all_manifests
from konverge.crds.manifest import to_yaml

__all__ = ["FOLDER", "expected", "main", "outdated", "stored"]

FOLDER = Path(__file__).parent / "manifests"
_COMMENT = "Generated from the models in konverge.crds by: python -m konverge.crds.generate"


def expected() -> dict[str, str]:
    """Return the generated files: name and content."""
    return {f"{manifest['metadata']['name']}.yaml": to_yaml(manifest, comment=_COMMENT) for manifest in all_manifests()}


def stored(folder: Path = FOLDER) -> dict[str, str]:
    """Return the files in the folder: name and content."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}


def outdated(wanted: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Return the names of files that are missing, differ, or have no definition."""
    return sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with `--check` only compare them; returns the exit code."""
    if unknown := [argument for argument in arguments if argument != "--check"]:
        sys.stderr.write(f"unknown argument {unknown[0]}; usage: python -m konverge.crds.generate [--check]\n")
        return 2
    wanted = expected()
    names = outdated(wanted, stored(folder))
    if "--check" in arguments:
        for name in names:
            sys.stderr.write(f"{folder / name} differs from the models; run: python -m konverge.crds.generate\n")
        return 1 if names else 0
    folder.mkdir(exist_ok=True)
    for name in names:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
        sys.stdout.write(f"{folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
