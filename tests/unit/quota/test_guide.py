"""docs/guide/quota.md is accurate: its examples are accepted, and its table names exactly the existing fields, conditions and metrics."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from quota.lab import Quotas

from konverge.crds import all_manifests, crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers import quota
from konverge.reconcilers.quota import definitions, words
from konverge.reconcilers.quota.capsule_check import HAND_OVER
from konverge.reconcilers.quota.kinds import NAMESPACE
from konverge_testing import Lab

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "quota.md"
TEXT = GUIDE.read_text()
EXAMPLES: list[dict[str, Any]] = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for document in yaml.safe_load_all(block)
]
TABLE = TEXT.partition("## Fields, columns, conditions, metrics")[2].partition("## Departures")[0]
TYPES = (
    words.QuotaCondition.READY,
    words.QuotaCondition.EXHAUSTED,
    words.QuotaCondition.ASSIGNED,
    words.QuotaCondition.BOUND,
)


def named(pattern: str, text: str = TABLE) -> set[str]:
    """Everything in code quotes that matches a pattern."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {found for found in re.findall(r"`([^`]+)`", prose) if re.fullmatch(pattern, found)}


def rows(start: str) -> list[list[str]]:
    """Lines of the table from the first cell with this prefix down to the next first cell."""
    found: list[list[str]] = []
    for line in TABLE.splitlines():
        cells = _cells(line)
        if cells[0].startswith(start) or (found and not cells[0]):
            found.append(cells)
        elif found:
            break
    return found


def test_the_refusal_beside_a_capsule_points_to_this_page() -> None:
    assert ROOT / HAND_OVER == GUIDE
    assert "\n## Taking over from Capsule\n" in TEXT


def test_the_role_for_tenants_is_the_one_that_the_family_has() -> None:
    assert [one for one in EXAMPLES if one["kind"] == "ClusterRole"] == [quota.tenant_role()]


async def test_the_examples_are_accepted_and_the_claim_is_bound(lab: Lab) -> None:
    labels = {"capsule.clastix.io/tenant": "solar"}
    await lab.client.create(NAMESPACE.new("solar-prod", labels=labels))
    here = await Quotas(lab).start()
    objects = [Object(one) for one in EXAMPLES if one["kind"] != "ClusterRole"]
    assert [one.kind_name for one in objects] == ["ResourcePool", "ResourcePoolClaim"]
    for one in objects:
        await lab.client.create(kind_of(one).decode(one.to_dict()))
    await here.spent({"requests.cpu": 2, "requests.memory": "4Gi", "persistentvolumeclaims": 0}, pool="solar")
    claim = await lab.client.get(ResourcePoolClaim, "database", "solar-prod")
    assert [(said.type, said.reason, said.message) for said in claim.conditions] == [
        ("Bound", "Succeeded", "Claimed resources")
    ]


def test_every_metric_stands_in_the_table_with_its_labels_and_no_other() -> None:
    assert named(r"capsule_\w+") == {metric.name for metric in words.METRICS}
    for metric in words.METRICS:
        [line] = [line for line in TABLE.splitlines() if f"`{metric.name}`" in line]
        labels = {label for label in named(r"[a-z_]+", line) if not label.startswith("capsule_")}
        assert labels == set(metric.labels), metric.name


def test_the_page_lists_columns_metrics_and_labels_of_the_semantics_v014() -> None:
    part = TEXT.partition("## As Capsule v0.13 and later")[2].partition("\n## ")[0]
    newer = definitions(all_manifests(), quota.Settings(semantics="v0.14"))
    rows = {cells[0]: cells for cells in map(_cells, part.splitlines()) if cells[0]}
    for manifest in newer:
        [version], names = manifest["spec"]["versions"], manifest["spec"]["names"]
        if manifest["spec"]["group"] == "capsule.clastix.io":
            told = re.sub(
                r" \([^)]*\)", "", rows[f"columns of {'claims' if 'claim' in names['plural'] else 'pools'}"][2]
            )
            columns = [column["name"] for column in version["additionalPrinterColumns"]]
            assert [*told.split(", "), "Age"] == columns
    for metric in {*words.METRICS_OF_V014} - {*words.METRICS}:
        assert named(r"[a-z_]+", rows[f"`{metric.name}`"][2]) == set(metric.labels)


def test_the_guide_lists_every_reason_beside_its_condition() -> None:
    reasons = {value for name, value in vars(words.QuotaReason).items() if not name.startswith("_")}
    told = {type_: {row[1] for row in rows(f"condition `{type_}`")} for type_ in TYPES}
    assert all(told.values())
    pairs = {found for cells in told.values() for cell in cells for found in named(r"(True|False)/\w+", cell)}
    assert {pair.partition("/")[2] for pair in pairs} == reasons


@pytest.mark.parametrize("model", [ResourcePool, ResourcePoolClaim])
def test_columns_spec_and_status_of_the_guide_equal_the_definition(model: type[Any]) -> None:
    [version] = crd(model)["spec"]["versions"]
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert ", ".join(columns) in {row[1] for row in map(_cells, TABLE.splitlines()) if row[0] == "columns"}
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    fields = {f"{part}.{name}" for part in ("spec", "status") for name in schema[part]["properties"]}
    cells = " ".join(row[1] for row in rows(model.__name__))
    assert {found.partition(".{")[0] for found in named(r"(spec|status)\..*", cells)} == fields


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else ["", ""]


def test_the_numbers_of_the_limits_are_those_of_the_settings() -> None:
    settings = quota.Settings()
    limits = TEXT.partition("## Limits")[2].partition("\n## ")[0]
    assert f"{settings.max_claims:,} claims (`quota.max_claims`)" in limits
    assert f"{settings.max_status_bytes / 1e6:g} MB" in limits
    assert named(r"quota\.[a-z_]+", TEXT) <= {f"quota.{name}" for name in quota.Settings.model_fields}


SHOWN = {
    "hurts only its own namespace": "test_people.py::test_amount_that_bypassed_admission_and_fits_no_status_blocks_no_pool",
    "a ResourceQuota that is refused, hurts": "test_faults.py::test_x28_a_claim_whose_resource_no_quota_takes_is_refused_alone",
    "is restored within a second": "test_strays.py::test_a_quota_without_owner_that_is_deleted_is_restored_within_a_second",
    "or lost its owner or label": "test_strays.py::test_a_quota_whose_owner_reference_was_removed_is_adopted_again_at_once",
    "[release it first](#release)": "test_rows.py::test_x23_claim_released_by_annotation_is_queued_again_after_an_edit",
    "They do not count as claimed": "test_witnesses.py::test_default_lowered_while_pods_use_it_does_not_count_as_claimed",
    "`orderedQueue` holds for it": "test_claims_without_a_pool.py::test_older_claim_without_a_pool_keeps_its_place_in_ordered_queues",
    "nothing is released by it": "test_semantics_v014.py::test_the_semantics_are_changed_and_changed_back_without_losing_anything",
    "dashboards written for it fit": "../../unit/quota/test_report.py::test_claim_series_is_1_on_bound_if_bound_else_on_assigned",
}
"""Sentences of the page that real use once found untrue, with the test that shows each, from tests/scenarios/quota."""


@pytest.mark.parametrize("sentence", SHOWN)
def test_each_sentence_that_was_once_untrue_is_covered_by_a_test(sentence: str) -> None:
    assert sentence in re.sub(r"\s+", " ", TEXT)
    file, _, name = SHOWN[sentence].partition("::")
    tests = ast.parse((ROOT / "tests" / "scenarios" / "quota" / file).read_text()).body
    assert name in {test.name for test in tests if isinstance(test, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_the_page_names_every_alert_and_no_other() -> None:
    file = ROOT / "deploy" / "alerts" / "quota.yaml"
    if not file.exists():
        pytest.skip("deploy/ is not part of the wheel")
    alerts = {rule["alert"] for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]}
    assert named(r"Quota\w+", TEXT) == alerts
