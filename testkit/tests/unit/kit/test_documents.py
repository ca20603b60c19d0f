"""The tests in the documents pass in an empty project of their own, without the configuration of this repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "examples"
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "testkit").rglob("*.md")))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the documents are not part of the wheel")


def modules_in(document: Path) -> list[str]:
    """Return the blocks of a document that are whole modules of tests for the lab, recognised by their imports."""
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    return [
        block for block in blocks if "async def test_" in block and re.search(r"^(import|from) ", block, re.MULTILINE)
    ]


@pytest.mark.slow
def test_the_tests_of_the_documents_pass_in_an_empty_project(tmp_path: Path) -> None:
    for program in EXAMPLES.glob("*.py"):
        (tmp_path / program.name).write_text(program.read_text())
    known = {path.read_text() for path in EXAMPLES.rglob("test_*.py")}
    blocks = [block for document in DOCUMENTS for block in modules_in(document) if block not in known]
    assert blocks
    for number, block in enumerate(blocks):
        (tmp_path / f"test_document_{number}.py").write_text(block)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed in ", done.stdout, re.MULTILINE), done.stdout
