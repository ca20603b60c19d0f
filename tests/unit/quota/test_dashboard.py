"""The Grafana dashboard in deploy/dashboards/quota.json: every word in it is declared; with promtool, the values of its panels."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql import evaluate, filled
from promtool import promtool, run_promtool
from quota.metrics import DECLARED, OF_THE_LIBRARY

from konverge.reconcilers.quota.words import METRICS

FILE = Path(__file__).parents[3] / "deploy" / "dashboards" / "quota.json"
if not FILE.exists():
    pytest.skip("deploy/ is not part of the wheel", allow_module_level=True)
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in DASHBOARD["panels"]}
VARIABLES: dict[str, dict[str, Any]] = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
# Panels show these numbers too, but compute them from the amounts.
LEFT_OUT = {
    *("capsule_pool_usage_percentage", "capsule_pool_namespace_usage_percentage", "capsule_pool_exhaustion_percentage"),
    "capsule_claim_resource",
}

needs_promtool = pytest.mark.skipif(
    promtool() is None, reason="no promtool in PATH or in the cache: python tools/promtool.py"
)


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_a_panel_uses_only_metrics_and_labels_that_the_words_declare(title: str, target: dict[str, Any]) -> None:
    assert DECLARED.metrics_in(target["expr"]), title
    assert DECLARED.strays(target["expr"]) == []


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_a_panel_uses_only_variables_that_the_dashboard_has(title: str, target: dict[str, Any]) -> None:
    assert set(re.findall(r"\$(\w+)", target["expr"])) <= VARIABLES.keys(), title
    assert target["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_a_legend_names_only_labels_that_the_expression_keeps(title: str, target: dict[str, Any]) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    [kept, *_] = re.findall(r"\bby \(([^)]*)\)", target["expr"])
    assert named <= {label.strip() for label in kept.split(",")}, title


def test_a_variable_offers_values_of_a_label_that_its_metric_has() -> None:
    asked = {
        name: re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        for name, variable in VARIABLES.items()
        if variable["type"] == "query"
    }
    assert asked.keys() == {"pool", "resource", "namespace"}
    labels = {metric.name: metric.labels for metric in METRICS}
    for found in asked.values():
        assert found is not None
        [metric] = DECLARED.metrics_in(found[1])
        assert DECLARED.strays(found[1]) == []
        assert found[2] in labels[metric]


def test_every_family_metric_is_on_the_dashboard_or_omitted_with_reason() -> None:
    shown = set().union(*(DECLARED.metrics_in(target["expr"]) for _, target in TARGETS))
    shown |= set().union(*(DECLARED.metrics_in(str(variable["query"])) for variable in VARIABLES.values()))
    assert shown | LEFT_OUT == {metric.name for metric in METRICS} | OF_THE_LIBRARY.keys()
    assert not shown & LEFT_OUT


def test_no_two_panels_overlap() -> None:
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@needs_promtool
def test_prometheus_accepts_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": filled(target["expr"])} for n, (_, target) in enumerate(TARGETS)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = run_promtool("check", "rules", path)
    assert done.returncode == 0, done.stderr


SERIES = {
    **{
        f'capsule_pool_{name}{{pool="sampler",resource="{resource}"}}': amounts[index]
        for resource, amounts in {"requests.cpu": (2, 0, 2, 0), "requests.memory": (2048, 1536, 512, 2048)}.items()
        for index, name in enumerate(("limit", "usage", "available", "exhaustion"))
    },
    'capsule_pool_limit{pool="empty",resource="pods"}': 0,
    'capsule_pool_usage{pool="empty",resource="pods"}': 0,
    'capsule_pool_namespace_usage{pool="sampler",resource="requests.memory",target_namespace="solar-test"}': 1024,
    'capsule_pool_namespace_usage{pool="sampler",resource="requests.memory",target_namespace="solar-prod"}': 512,
    'capsule_pool_condition{pool="sampler",condition="Ready"}': 1,
    'capsule_pool_condition{pool="empty",condition="Ready"}': 0,
    **{
        f'capsule_claim_condition{{name="{name}",target_namespace="{namespace}",pool="{pool}",condition="{condition}",'
        f'status="{status}",reason="{reason}"}}': int(condition == now)
        for name, namespace, pool, now, status, reason in (
            ("large", "solar-prod", "sampler", "Bound", "False", "PoolExhausted"),
            ("skip-the-line", "solar-test", "sampler", "Bound", "True", "Succeeded"),
            ("new", "solar-test", "sampler", "Assigned", "True", "Succeeded"),
            ("any", "solar-test", "", "Assigned", "False", "Unassigned"),
        )
        for condition in ("Assigned", "Bound")
    },
}
"""The series of a pool with a waiting claim, and of a pool that is empty and not ready."""
REACHED = ("30", "40", "+Inf")
RISING = {
    'controller_runtime_reconcile_total{controller="resourcepool",result="success"}': "0+60x10",
    'controller_runtime_reconcile_total{controller="applicationinstance",result="success"}': "0+60x10",
    **{
        f'controller_runtime_reconcile_time_seconds_bucket{{controller="resourcepool",le="{edge}"}}': f"0+{60 * (edge != '30')}x10"
        for edge in REACHED
    },
}
"""A reconcile of a pool in each second, of 30 to 40 seconds, and one of another family."""
MEMORY = 'pool="sampler", resource="requests.memory"'
SHOWN: dict[str, dict[str, float]] = {
    "Pools": {"{}": 2},
    "Claims allocated": {"{}": 1},
    "Claims waiting": {"{}": 2},
    "Pools not ready": {"{}": 1},
    "Claimed share of each pool": {f"{{{MEMORY}}}": 0.75, '{pool="sampler", resource="requests.cpu"}': 0},
    "Cores": {'{pool="sampler", resource="requests.cpu"}': 0},
    "Memory and storage": {f"{{{MEMORY}}}": 1536},
    "Pieces": {'{pool="empty", resource="pods"}': 0},
    "Left in each pool": {f"{{{MEMORY}}}": 0.25, '{pool="sampler", resource="requests.cpu"}': 1},
    "Who claims it": {
        f'{{{MEMORY}, target_namespace="solar-test"}}': 0.5,
        f'{{{MEMORY}, target_namespace="solar-prod"}}': 0.25,
    },
    "Short by": {f"{{{MEMORY}}}": 1536, '{pool="sampler", resource="requests.cpu"}': -2},
    "Reconciles by result": {'{controller="resourcepool", result="success"}': 1},
    "How long a reconcile takes": {'{controller="resourcepool"}': 39.9},
    "Claims that wait": {
        '{condition="Bound", name="large", pool="sampler", reason="PoolExhausted", target_namespace="solar-prod"}': 1,
        '{condition="Assigned", name="any", reason="Unassigned", target_namespace="solar-test"}': 1,
    },
}


@needs_promtool
def test_a_panel_shows_what_the_series_say(tmp_path: Path) -> None:
    assert SHOWN.keys() == PANELS.keys()
    series = {name: f"{value}x10" for name, value in SERIES.items()} | RISING
    queries = [filled(PANELS[title]["targets"][0]["expr"]) for title in SHOWN]
    shown = evaluate(queries, series, at="5m", interval="1m", folder=tmp_path)
    assert dict(zip(SHOWN, shown, strict=True)) == SHOWN
