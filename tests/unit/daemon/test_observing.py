"""Dashboards and alerts of deploy/, as tables over their files: every metric and label exists, Prometheus accepts each query, alerts fire.

The dashboards and alerts of quota have tests of their own for the words of that family and the values of its panels.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from promql import Declared, filled, kept
from promtool import promtool, run_promtool

from konverge.conditions import STATUSES
from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.crds.ops_v1alpha1 import Cluster
from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.metrics import Metrics
from konverge.reconcilers.apps import controller
from konverge.reconcilers.apps.operations import install as operations
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.pools.metrics import PoolMetrics

DEPLOY = Path(__file__).parents[3] / "deploy"
CASES = Path(__file__).with_name("alerts.test.yaml")
if not DEPLOY.exists():
    pytest.skip("deploy/ is not part of the wheel", allow_module_level=True)

NAMES = ("daemon", "apps", "clusters", "machines", "pools", "workspaces")
DASHBOARDS: dict[str, dict[str, Any]] = {
    name: json.loads((DEPLOY / "dashboards" / f"{name}.json").read_text()) for name in NAMES
}
CONDITIONS = {
    *controller().counted,
    *Cluster.__konverge_declaration__.conditions,
    *NstanceMachinePool.__konverge_declaration__.conditions,
    *NstanceMachine.__konverge_declaration__.conditions,
    *Nextcloud.__konverge_declaration__.conditions,
    *WorkspaceClaim.__konverge_declaration__.conditions,
}
RULES = {
    rule["alert"]: rule
    for name in NAMES
    for group in yaml.safe_load((DEPLOY / "alerts" / f"{name}.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
RECORDED = {
    rule["record"]: rule["expr"]
    for group in yaml.safe_load((DEPLOY / "alerts" / "daemon.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}
TARGETS = [
    pytest.param(name, panel["title"], target, id=f"{name}: {panel['title']}")
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    for target in panel.get("targets", ())  # a row has none
]
OF_THE_PROCESS = ("process_cpu_seconds_total", "process_resident_memory_bytes")
"""Metrics of the Python client that panels show."""
needs_promtool = pytest.mark.skipif(
    promtool() is None, reason="no promtool in PATH or in the cache: python tools/promtool.py"
)


def known() -> dict[str, set[str]]:
    """The labels of every series that the library exposes, by the name that a query uses."""
    found: dict[str, set[str]] = {}
    own = Metrics(CollectorRegistry())
    families = (
        OperationMetrics.within(own),
        PullMetrics.within(own),
        PoolMetrics.within(own),
        MachineMetrics.within(own),
    )
    for instrument in (one for holder in (own, *families) for one in vars(holder).values()):
        if not isinstance(instrument, MetricWrapperBase):
            continue
        [family] = instrument.describe()
        labels = set(instrument._labelnames)
        ending = {"counter": "_total"}.get(family.type, "")
        found[family.name + ending] = labels
        if family.type == "histogram":
            found |= {f"{family.name}_bucket": labels | {"le"}, f"{family.name}_count": labels}
    found |= {one.metric: set(one.labels) for one in operations.controller().groupings}
    return found | {name: set() for name in OF_THE_PROCESS}


DECLARED = Declared(known(), {"condition": CONDITIONS, "status": STATUSES}, scraped={"instance", "job", "namespace"})


def test_a_metric_or_label_that_does_not_exist_is_noticed() -> None:
    query = 'sum by (node) (rate(workqueue_depth{zone="a"}[5m])) > konverge_size + konverge_status_conditions{condition="Raedy"}'
    assert DECLARED.strays(query) == [
        "metric konverge_size",
        "label zone of workqueue_depth",
        "value Raedy of label condition",
        "label node in a grouping",
    ]


@pytest.mark.parametrize(("name", "title", "target"), TARGETS)
def test_panel_names_exposed_metrics_and_a_legend_only_kept_labels(
    name: str, title: str, target: dict[str, Any]
) -> None:
    assert DECLARED.metrics_in(target["expr"]), title
    assert DECLARED.strays(target["expr"]) == []
    variables = {variable["name"] for variable in DASHBOARDS[name]["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables
    assert set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))) <= kept(target["expr"])


@pytest.mark.parametrize("name", NAMES)
def test_no_two_panels_overlap(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("series", RECORDED)
def test_a_recorded_series_is_of_known_metrics_and_an_alert_uses_it(series: str) -> None:
    assert DECLARED.metrics_in(RECORDED[series])
    assert DECLARED.strays(RECORDED[series]) == []
    assert any(series in rule["expr"] for rule in RULES.values())


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_waits_and_describes_the_remedy_with_labels_that_it_has(alert: str) -> None:
    rule = RULES[alert]
    assert DECLARED.strays(rule["expr"]) == []
    assert rule["for"]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert used == kept(rule["expr"]) - {"le"}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    files = [yaml.safe_load(path.read_text()) for path in (DEPLOY / "alerts").iterdir()]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"] if "alert" in rule]
    page = "docs/guide/monitoring.md"
    [_, *parts] = (DEPLOY.parent / page).read_text().split("\n## Runbooks: ")
    runbooks = re.findall(r"^### (\w+)\n\n[^#\s]", "\n".join(parts), re.MULTILINE)
    assert sorted(runbooks) == sorted(rule["alert"] for rule in rules)
    for rule in rules:
        assert (
            rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
        )  # the anchor that GitHub generates for a heading


def test_every_alert_has_a_firing_case_and_a_silent_case() -> None:
    tests = [one for case in yaml.safe_load(CASES.read_text())["tests"] for one in case["alert_rule_test"]]
    for fires in (True, False):
        assert {one["alertname"] for one in tests if bool(one["exp_alerts"]) is fires} == RULES.keys()


@needs_promtool
def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    queries = [filled(target.values[2]["expr"]) for target in TARGETS]  # type: ignore[index]  # pytest types values as objects
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = run_promtool("check", "rules", tmp_path / "rules.yaml")
    assert done.returncode == 0, done.stderr


@needs_promtool
def test_prometheus_raises_the_alerts_that_the_cases_expect() -> None:
    done = run_promtool("test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr
