"""The table of the original's defects in docs/reference/operations.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "reference" / "operations.md").read_text().partition("## Defects of the original")[2]
ROWS = re.findall(r"^\| (?!The original|---)(.+?) \| (.+?) \| `(test_\w+)` \|$", TABLE, re.MULTILINE)


def test_every_defect_of_the_original_has_a_test_of_its_name() -> None:
    sources = "\n".join(
        path.read_text()
        for folder in ("tests/scenarios/operations", "tests/unit/apps")
        for path in sorted((ROOT / folder).rglob("test_*.py"))
    )
    assert len(ROWS) == len(re.findall(r"^\| ", TABLE, re.MULTILINE)) - 1 >= 20
    assert [test for _, _, test in ROWS if f"def {test}(" not in sources] == []
