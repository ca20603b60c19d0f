"""The table and samples of the demo, without running it."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.daemon.demo.samples import EXPECTED, NAMESPACE, samples
from konverge.daemon.demo.table import Row, Table, converged, row_of
from konverge.objects import Object

SHOP: dict[str, Any] = {
    "metadata": {"name": "shop"},
    "spec": {
        "mode": "managed",
        "chart": {"name": "shop", "version": "1.4.2", "sourceType": "helm"},
        "values": {"source": "inline"},
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "HelmReleaseReady", "message": "deployed"}]
    },
}


def test_an_instance_is_a_row() -> None:
    assert row_of(Object(SHOP)) == Row(
        "shop", "managed", "shop 1.4.2 (helm)", "inline", "True", "HelmReleaseReady", "deployed"
    )
    assert row_of(Object({"metadata": {"name": "mail"}, "spec": {"mode": "placeholder"}})) == Row(
        "mail", "placeholder", "", "", "", "", ""
    )


def test_the_demo_has_converged_when_each_sample_has_its_expected_condition() -> None:
    rows = [Row(name, "", "", "", end.status, end.reason, "") for name, end in EXPECTED.items()]
    assert converged(rows, EXPECTED)
    assert not converged(rows[1:], EXPECTED)
    assert not converged([rows[0]._replace(reason="Installing"), *rows[1:]], EXPECTED)


def test_without_a_terminal_only_changes_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    row = row_of(Object(SHOP))
    with Table(live=False) as table:
        table.show([row])
        table.show([row])
        table.show([row._replace(reason="Other", message="")])
    assert capsys.readouterr().out == "shop   Ready=True HelmReleaseReady: deployed\nshop   Ready=True Other\n"


def test_on_a_terminal_the_whole_table_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with Table(live=True) as table:
        table.show([row_of(Object(SHOP))])
    drawn = capsys.readouterr().out
    assert "Instance" in drawn
    assert "shop 1.4.2 (helm)" in drawn


def test_the_samples_fit_the_model_and_each_has_an_expected_end() -> None:
    instances = [document for document in samples() if document["kind"] == "ApplicationInstance"]
    decoded = [ApplicationInstance.decode(document) for document in instances]
    assert {instance.name for instance in decoded} == set(EXPECTED)
    assert {instance.namespace for instance in decoded} == {NAMESPACE}


def test_the_samples_cover_every_mode_source_and_kind_of_values() -> None:
    specs = [document["spec"] for document in samples() if document["kind"] == "ApplicationInstance"]
    assert {spec.get("mode", "managed") for spec in specs} == {"managed", "placeholder"}
    assert {spec["chart"]["sourceType"] for spec in specs if "chart" in spec} == {"helm", "oci"}
    assert {spec["values"]["source"] for spec in specs if "values" in spec} == {"inline", "secretRef", "configMapRef"}
