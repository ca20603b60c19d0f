"""The alert rules in deploy/alerts/quota.yaml: every word in them is declared; with promtool, their results for given series."""

import doctest
import re
from pathlib import Path
from typing import Any

import promql
import pytest
import yaml
from promql import grouped
from promtool import promtool, run_promtool
from quota.metrics import DECLARED

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "alerts" / "quota.yaml"
TESTS = Path(__file__).with_name("alerts.test.yaml")
if not RULES.exists():
    pytest.skip("deploy/ is not part of the wheel", allow_module_level=True)
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}

needs_promtool = pytest.mark.skipif(
    promtool() is None, reason="no promtool in PATH or in the cache: python tools/promtool.py"
)


def test_the_examples_of_the_reader_run() -> None:
    assert doctest.testmod(promql).failed == 0


def test_exhausted_pool_and_waiting_claim_each_have_an_alert() -> None:
    assert {"QuotaPoolNearlyExhausted", "QuotaClaimWaiting"} <= ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_uses_only_metrics_and_labels_that_the_words_declare(alert: str) -> None:
    expression = ALERTS[alert]["expr"]
    assert DECLARED.metrics_in(expression)
    assert DECLARED.strays(expression) == []


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_waits_and_describes_the_remedy_with_labels_that_it_has(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"runbook_url", "summary", "description"}
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert used == set(grouped(rule["expr"]))


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    cases = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == ALERTS.keys()


def test_the_series_of_the_cases_have_the_labels_that_the_words_declare() -> None:
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for series in test["input_series"]:
            assert DECLARED.strays(series["series"]) == []


@needs_promtool
def test_prometheus_accepts_the_alert_rules() -> None:
    done = run_promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout


@needs_promtool
def test_prometheus_raises_the_alerts_that_the_cases_expect() -> None:
    done = run_promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_cases_notice_a_rule_that_was_changed(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES.read_text().replace("> 0.9", "> 0.96"))
    cases = {**yaml.safe_load(TESTS.read_text()), "rule_files": [str(tmp_path / "rules.yaml")]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    assert run_promtool("test", "rules", tmp_path / "cases.yaml").returncode == 1
