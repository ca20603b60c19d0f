"""The tables of the original's defects in docs/reference name tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "folders", "least"),
    [
        ("operations", ("tests/scenarios/operations", "tests/unit/apps"), 25),
        ("pull-protocol", ("tests/unit/clusters",), 10),
    ],
)
def test_every_defect_of_the_original_has_a_test_of_its_name(page: str, folders: tuple[str, ...], least: int) -> None:
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text()
    table = text.partition("## Defects of the original")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!The original|---)(.+?) \| (.+?) \| `(test_\w+)` \|$", table, re.MULTILINE)
    sources = "\n".join(path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("test_*.py")))
    assert len(rows) == len(re.findall(r"^\| ", table, re.MULTILINE)) - 1 >= least
    assert [test for _, _, test in rows if f"def {test}(" not in sources] == []
