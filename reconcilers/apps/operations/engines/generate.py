"""Writes the names of the engines that `spec.engine` admits into `crds/engine_names.py`, from the rows of `registry.py`:
`python -m konverge.reconcilers.apps.operations.engines.generate [--check]`.

The definitions are a layer below the engines and cannot import them, so the names are written down. Whatever else depends on an engine is
derived from its row.

Guarantees: `text` is pure. With `--check` nothing is written, and the exit code is 1 if the file differs from the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import konverge.crds
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow

__all__ = ["TARGET", "main", "text"]

TARGET: Final = Path(konverge.crds.__file__).parent / "engine_names.py"
_COMMAND: Final = "python -m konverge.reconcilers.apps.operations.engines.generate"
_WIDTH: Final = 140
_HEAD: Final = f'''"""The engines of Operations, which `spec.engine` admits. Generated from their rows by:

{_COMMAND}
"""

from __future__ import annotations

from typing import Literal

__all__ = ["EngineName"]

'''


def text(rows: Iterable[EngineRow]) -> str:
    """Return the file: the names in the order of the rows."""
    names = ", ".join(f'"{name}"' for name in dict.fromkeys(row.engine.name for row in rows))
    line = f"EngineName = Literal[{names}]"
    # As the formatter writes it: in a line of their own only if they do not fit.
    return f"{_HEAD}{line}\n" if len(line) <= _WIDTH else f"{_HEAD}EngineName = Literal[\n    {names}\n]\n"


def main(arguments: Sequence[str], target: Path = TARGET) -> int:
    """Write the file, or with `--check` only compare it; returns the exit code."""
    if unknown := [argument for argument in arguments if argument != "--check"]:
        sys.stderr.write(f"unknown argument {unknown[0]}; usage: {_COMMAND} [--check]\n")
        return 2
    wanted = text(ROWS)
    if target.read_text(encoding="utf-8") == wanted:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{target} is not what the rows of the engines say; run: {_COMMAND}\n")
        return 1
    target.write_text(wanted, encoding="utf-8")
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
