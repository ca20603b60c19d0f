"""The table of the folders of tests that `make test` may leave out names everything that their tests depend on."""

import re
from pathlib import Path

import pytest
from unchanged_tests import SOURCES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [folder for folder in SOURCES if not folder.startswith("testkit/")]
FAMILY = re.compile(r"\bkonverge\.reconcilers\.(\w+)")
OTHER_FOLDER = re.compile(r"/ f?\"(docs|deploy|charts|tools|examples|\.ci)\b")


def text_of(folder: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / folder).rglob("*.py")))


@pytest.mark.parametrize("folder", SOURCES)
def test_each_folder_of_the_table_and_its_sources_exist(folder: str) -> None:
    paths = [source for source in SOURCES[folder] if not source.startswith(":")]
    assert [path for path in (folder, *paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_family_that_a_folder_imports_is_among_its_sources(folder: str) -> None:
    families = {f"reconcilers/{name}" for name in FAMILY.findall(text_of(folder))}
    assert families, "the tests of a family import it"
    assert families <= set(SOURCES[folder])


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_further_folder_that_tests_read_is_among_the_sources(folder: str) -> None:
    read = set(OTHER_FOLDER.findall(text_of(folder)))
    assert read <= {source.split("/")[0] for source in SOURCES[folder]}
