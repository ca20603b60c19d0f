"""The pages of docs/tutorial are followed in an empty folder, as a reader follows them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import first_hour
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "tutorial"
COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```', re.DOTALL | re.MULTILINE)


def environment() -> dict[str, str]:
    """The reader's variables, with the programs of the tree's environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    return {**kept, "PATH": os.pathsep.join((str(Path(sys.executable).parent), kept["PATH"]))}


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def chapters(folder: Path) -> list[str]:
    """The chapters in the order of the table in README.md."""
    names = re.findall(r"^\| \[\d\. [^]]+\]\((\w+\.md)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted([*names, "README.md"]) == sorted(page.name for page in folder.glob("*.md"))
    return names


def steps_of(page: Path) -> list[first_hour.Step]:
    """The steps of a chapter: a block with the name of a file is a difference that creates the file."""

    def creation(block: re.Match[str]) -> str:
        lines = block["text"].splitlines()
        added = "".join(f"+{line}\n" for line in lines)
        return f"```diff\n--- /dev/null\n+++ b/{block['name']}\n@@ -0,0 +1,{len(lines)} @@\n{added}```"

    text = FILE.sub(creation, f"#{page.read_text()}")  # the title too is the heading of a section
    return [step for step in first_hour.steps_of(text) if step.section != "Install"]


@pytest.mark.timeout(600)
def test_chapters_of_the_website_result_in_the_example_word_for_word(tmp_path: Path) -> None:
    steps = [step for name in chapters(PAGES / "website") for step in steps_of(PAGES / "website" / name)]
    done = first_hour.run(steps, tmp_path, environment())
    assert [timed.step for timed in done] == steps
    assert files(tmp_path / "website") == files(ROOT / "examples" / "website")
    assert (tmp_path / "chart" / "Chart.yaml").is_file()


@pytest.mark.parametrize("page", sorted(page.stem for page in PAGES.glob("*.md") if COMMANDS.search(page.read_text())))
def test_commands_of_a_chapter_succeed_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "tutorial", tmp_path / "tutorial")
    for commands in COMMANDS.findall((PAGES / f"{page}.md").read_text()):
        done = subprocess.run(
            ["bash", "-ec", commands], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_chapter_is_in_the_table_of_contents() -> None:
    assert len(chapters(PAGES)) == 9
