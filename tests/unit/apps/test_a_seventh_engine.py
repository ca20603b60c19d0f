"""A seventh engine is a file and a row: all else follows from them, the CustomResourceDefinition by `make generate`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import konverge
from konverge.reconcilers.apps.operations.engines.generate import TARGET, main, text
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow

SUPPORT = Path(__file__).parents[2] / "support"
ENGINES = "reconcilers/apps/operations/engines"


def run(copy: Path, *command: str) -> str:
    """Run Python in a process whose konverge is the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{SUPPORT}"}
    done = subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_names_that_the_schema_admits_are_those_of_the_rows() -> None:
    assert TARGET.read_text() == text(ROWS), "run: make generate"
    names = [row.engine.name for row in ROWS]
    assert text([*ROWS, EngineRow("Runbook", ROWS[0].engine)]) == text(ROWS), "an engine of two types is named once"
    assert all(f'"{name}"' in text(ROWS) for name in names)


def test_a_file_that_is_behind_its_rows_is_found_and_written(tmp_path: Path) -> None:
    target = tmp_path / "engine_names.py"
    target.write_text(text(ROWS[:2]))
    assert [main(["--check"], target), main(["--other"], target), main([], target), main(["--check"], target)] == [
        *(1, 2, 0, 0)
    ]
    assert target.read_text() == text(ROWS)


def test_a_file_and_a_row_make_a_seventh_engine(tmp_path: Path) -> None:
    copy = tmp_path / "konverge"
    shutil.copytree(Path(konverge.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SUPPORT / "seventh_engine.py", copy / ENGINES / "note.py")
    registry = copy / ENGINES / "registry.py"
    row = "from konverge.reconcilers.apps.operations.engines.note import NoteEngine\n"
    before, head, after = registry.read_text().partition("ROWS: Final[tuple[EngineRow, ...]] = (\n")
    registry.write_text(
        before.replace("\n__all__", f"{row}\n__all__", 1)
        + head
        + '    EngineRow("RunCommand", NoteEngine()),\n'
        + after
    )
    run(tmp_path, "-m", "konverge.reconcilers.apps.operations.engines.generate")
    run(tmp_path, "-m", "konverge.crds.generate")
    assert "- note\n" in (copy / "crds/manifests/operations.ops.vworkspace.io.yaml").read_text()
    found = json.loads(run(tmp_path, str(copy / ENGINES / "note.py")))
    assert found["phase"] == "Succeeded"
    assert found["outputs"]["done"] == "swept"
    assert {"create", "delete", "get", "list", "patch", "watch"} <= set(found["verbs"])
