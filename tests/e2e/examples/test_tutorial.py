"""The commands of docs/tutorial run in a folder that has only the program, as a reader runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "tutorial"
COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md") if COMMANDS.search(page.read_text())))
def test_commands_of_a_chapter_succeed_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "tutorial", tmp_path / "tutorial")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    for commands in COMMANDS.findall((PAGES / f"{page}.md").read_text()):
        done = subprocess.run(
            ["bash", "-ec", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_chapter_is_in_the_table_of_contents() -> None:
    index = (PAGES / "README.md").read_text()
    assert [
        page.name for page in PAGES.glob("*.md") if page.name != "README.md" and f"]({page.name})" not in index
    ] == []
