"""docs/reference/rights.md has a row for each right that the chart may give the daemon, and no other row."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hosted import NAMES

from konverge.charts import FOLDER

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rights.md"
COMMON = "Every family"

WHERE = {
    "rules.yaml": "cluster",
    "rules-secrets.yaml": "Secrets",
    "rules-webhooks.yaml": "cluster, with webhooks",
    "rules-stamps.yaml": "cluster, with sharding",
    "rules-metrics.yaml": "cluster, with secure metrics",
    "rules-namespaces.yaml": "listed",
    "rules-objectbucketclaims.yaml": "listed, with bucket claims",
    "rules-home.yaml": "release",
    "rules-election.yaml": "release, with election",
    "rules-members.yaml": "release, with sharding",
    "rules-ordinals.yaml": "release, with ordinals",
    "rules-certificates.yaml": "release, with self-managed webhooks",
}
"""The first column of the tables, by the generated file."""

Right = tuple[str, str, tuple[str, ...], str]
"""Where, resource, names, verb."""


def where_of(file: str, resource: str) -> str:
    """Return the first column; configurations of webhooks belong to the cluster."""
    if file == "rules-certificates.yaml" and resource.startswith(("mutating", "validating")):
        return "cluster, with self-managed webhooks"
    return WHERE[file]


def generated(family: str) -> set[Right]:
    """Return the rights of a family in the files of the chart, including the files for its other semantics."""
    found: set[Right] = set()
    for path in FOLDER.glob("files/*/rules*.yaml"):
        if path.parent.name != family and not path.parent.name.startswith(f"{family}-"):
            continue
        for rule in yaml.safe_load(path.read_text())["rules"]:
            names = tuple(re.sub(rf"^{family}(?=$|-webhooks$)", "NAME", name) for name in rule.get("resourceNames", ()))
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    main, slash, below = resource.partition("/")
                    full = f"{main}.{group}{slash}{below}" if group else resource
                    found |= {(where_of(path.name, full), full, names, verb) for verb in rule["verbs"]}
    return found


def rows(section: str) -> Iterator[tuple[list[str], list[Right]]]:
    """Yield the cells of each row of a section, and its rights."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 5 or cells[0] in ("Where", "---") or line.startswith("|---"):
            continue
        where, resources, verbs = cells[:3]
        bare, bracket, named = resources.partition(" (")
        names = tuple(re.findall(r"`([^`]+)`", named)) if bracket else ()
        kinds = re.findall(r"`([^`]+)`", bare)
        yield cells, [(where, kind, names, verb) for kind in kinds for verb in verbs.split(", ")]


def described(section: str) -> set[Right]:
    return {right for _, rights in rows(section) for right in rights}


@pytest.mark.parametrize("family", NAMES)
def test_each_right_of_a_family_has_a_row(family: str) -> None:
    missing = generated(family) - described(family) - described(COMMON)
    assert not missing, f"add rows with reasons to {PAGE.name}: {sorted(missing)}"


@pytest.mark.parametrize("family", NAMES)
def test_each_row_of_a_family_is_a_right(family: str) -> None:
    assert described(family), "the section has no table"
    assert sorted(described(family) - generated(family)) == []


def test_each_row_of_every_family_is_a_right_of_several() -> None:
    counts = Counter(right for family in NAMES for right in generated(family))
    assert sorted(right for right in described(COMMON) if not counts[right]) == []


@pytest.mark.parametrize("section", [COMMON, *NAMES])
def test_no_right_has_two_rows_and_each_row_has_a_reason(section: str) -> None:
    counts = Counter(right for _, rights in rows(section) for right in rights)
    assert [right for right, number in counts.items() if number > 1] == []
    assert [cells for cells, _ in rows(section) if not all(cells)] == []


def test_the_table_of_places_names_every_generated_file() -> None:
    assert {path.name for path in FOLDER.glob("files/*/rules*.yaml")} <= WHERE.keys()
