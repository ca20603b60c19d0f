"""The table and samples of the demo, without running it."""

from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from konverge.client import Client
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.catalogue import all_manifests
from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup
from konverge.crds.ops_v1alpha1 import Cluster, EngineName
from konverge.errors import UsageError
from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing import ApiServer, install_crds
from konverge_testing.apiserver.catalog import builtin
from konverge_testing.demo.command import demo
from konverge_testing.demo.engines import engine_crds
from konverge_testing.demo.operator import names_for_kubectl, prepared, state_of
from konverge_testing.demo.samples import (
    CLUSTERS,
    EXPECTED,
    EXPECTED_BY_SECTION,
    MACHINES,
    NAMESPACE,
    NEXTCLOUDS,
    OPERATIONS,
    POOLS,
    cluster_samples,
    operation_samples,
    pool_samples,
    samples,
)
from konverge_testing.demo.table import (
    Row,
    Table,
    cluster_row,
    converged,
    machines_row,
    nextcloud_row,
    operation_row,
    pool_row,
    row_of,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "backup_operator.py"
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


OPERATION: dict[str, Any] = {
    "metadata": {"name": "nightly"},
    "spec": {"type": "Backup", "engine": "velero", "targetRef": {"name": "wiki"}},
}


def said(type_: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, ("", "", "")),
        (
            {"phase": "Pending", "conditions": [said("Accepted", "True", "AdmissionPassed")]},
            ("Pending", "AdmissionPassed", ""),
        ),
        (
            {"phase": "Pending", "conditions": [said("Blocked", "True", "TargetNotReady", "not Ready")]},
            ("Pending", "TargetNotReady", "not Ready"),
        ),
        (
            {"phase": "Running", "conditions": [said("Running", "True", "EngineStarted", "InProgress")]},
            ("Running", "EngineStarted", "InProgress"),
        ),
        (
            {"phase": "Failed", "conditions": [said("Failed", "True", "Timeout", "stopped")]},
            ("Failed", "Timeout", "stopped"),
        ),
    ],
)
def test_operation_row_has_its_phase_with_the_reason(status: Any, shown: tuple[str, ...]) -> None:
    row = operation_row(Object({**OPERATION, "status": status}))
    assert row == Row("nightly", "Backup", "velero", "wiki", *shown)._replace(section=OPERATIONS)


def test_cluster_row_has_its_phase_with_the_reason() -> None:
    connected = [said("Connected", "True", "RoundTripOK"), said("Authenticated", "True", "CredentialAccepted")]
    refused = [said("Connected", "False", "ControlPlaneUnreachable"), said("Authenticated", "False", "Expired")]
    stored = {"metadata": {"name": "demo"}, "spec": {"controlPlaneEndpoint": "https://plane.example.com"}}
    for phase, conditions, reason in (("Connected", connected, "RoundTripOK"), ("Error", refused, "Expired")):
        row = cluster_row(Object({**stored, "status": {"phase": phase, "conditions": conditions}}))
        wanted = Row("demo", "pull", "https://plane.example.com", "", phase, reason, "", section=CLUSTERS)
        assert row == wanted


def test_each_section_has_its_own_table_and_lines_name_their_section(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row_of(Object(SHOP)), operation_row(Object(OPERATION))]
    with Table(live=True) as table:
        table.show(rows)
    drawn = capsys.readouterr().out
    assert "Instance" in drawn
    assert "Engine" in drawn
    assert "Control plane" not in drawn
    with Table(live=False) as table:
        table.show(rows)
    assert capsys.readouterr().out.splitlines()[-1] == "op/nightly Phase=?"


def test_operation_samples_cover_each_engine_and_have_an_expected_end() -> None:
    found = [one for one in operation_samples() if one["kind"] == "Operation"]
    assert sorted(one["spec"]["engine"] for one in found) == sorted(get_args(EngineName))
    assert {one["metadata"]["name"] for one in found} == set(EXPECTED_BY_SECTION[OPERATIONS])
    clusters = [one["metadata"]["name"] for one in cluster_samples() if one["kind"] == "Cluster"]
    assert clusters == list(EXPECTED_BY_SECTION[CLUSTERS])


POOL, CLAIMS = pool_samples(claims=False), pool_samples(claims=True)


def test_pool_row_has_its_numbers_and_nextcloud_row_its_instance() -> None:
    ready, assigned = (
        said("Ready", "True", "Full", "2 of 2"),
        said("InstanceAssigned", "False", "PoolExhausted", "waits"),
    )
    pool = {"metadata": {"name": "small"}, "spec": {"replicas": 2}, "status": {"ready": 2, "conditions": [ready]}}
    assert pool_row(Object(pool)) == Row("small", "2", "2", "0", "True", "Full", "2 of 2", section=POOLS)
    waits = {"metadata": {"name": "ada"}, "status": {"conditions": [assigned]}}
    wanted = Row("ada", "", "", "", "False", "PoolExhausted", "waits", section=NEXTCLOUDS)
    assert nextcloud_row(Object(waits)) == wanted


def test_machine_pool_row_has_its_size_on_each_shard() -> None:
    ready = said("Ready", "True", "Reconciled", "3 replicas on 2 shards")
    spec = {"group": "workers", "shards": ["b", "a"]}
    status = {"nodes": 2, "conditions": [ready]}
    pool = NstanceMachinePool.decode({"metadata": {"name": "workers"}, "spec": spec, "status": status})
    owner = Object({"metadata": {"name": "workers"}, "spec": {"replicas": 3}})
    groups = [
        NstanceShardGroup.decode({"metadata": {"name": name}, "spec": {"group": group, "shard": shard, "size": size}})
        for name, group, shard, size in (("1", "workers", "b", 1), ("2", "workers", "a", 2), ("3", "other", "a", 9))
    ]
    row = machines_row(pool, owner, groups)
    assert row == Row("workers", "3", "a 2, b 1", "2", "True", "Reconciled", "3 replicas on 2 shards", section=MACHINES)
    assert row.line == "machines/workers 3 wanted (a 2, b 1), 2 nodes, Ready=True Reconciled: 3 replicas on 2 shards"
    assert machines_row(pool, None, []).mode == "?"


def test_pool_samples_have_expected_ends_and_one_claim_beyond_capacity() -> None:
    [pool] = [one for one in POOL if one["kind"] == "NextcloudPool"]
    assert {one["metadata"]["name"] for one in CLAIMS} == set(EXPECTED_BY_SECTION[NEXTCLOUDS])
    assert set(EXPECTED_BY_SECTION[POOLS]) == {pool["metadata"]["name"]}
    assert len(CLAIMS) == pool["spec"]["replicas"] + 1


async def test_every_sample_is_accepted_by_the_definitions_of_its_kind() -> None:
    async with ApiServer() as server, Client(server.config(), name="test") as client:
        await install_crds(client, [*all_manifests(), *engine_crds()])
        for name in ("konverge", NAMESPACE):
            await client.create(kind("v1", "Namespace").new(name))
        for document in (*samples(), *operation_samples(), *cluster_samples("http://127.0.0.1:1"), *POOL, *CLAIMS):
            await client.create(Object(document))
        [cluster] = (await client.list(Cluster)).items
        assert cluster.endpoint == "http://127.0.0.1:1"


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--samples", "."), "--samples goes with MODULE:BUILD"),
        (("x:build", "--replicas", "2"), "leave MODULE:BUILD out"),
        (("x:build", "--machines"), "leave MODULE:BUILD out"),
        (("x:build", "--control-plane", "real"), "the API server is in memory"),
        (("absent_module:build",), "no module 'absent_module'"),
    ],
)
def test_a_demo_that_cannot_begin_names_the_remedy(words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(demo, list(words))
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.usefixtures("untouched_imports")
@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "cannot read"), ("- 1", "a sample has apiVersion"), ("kind: A", "a sample has apiVersion")],
)
def test_a_sample_without_a_kind_is_refused_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "sample.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        prepared(str(EXAMPLE), [tmp_path], 0)


@pytest.mark.usefixtures("untouched_imports")
def test_samples_are_read_in_the_order_of_their_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n---\n")
    (tmp_path / "notes.txt").write_text("none")
    script = prepared(str(EXAMPLE), [tmp_path], 0)
    assert [sample["metadata"]["name"] for sample in script.samples] == ["a", "b"]
    assert script.waits_for == {("example.com", "Backup")}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (None, (False, "")),
        ({"status": "False", "observedGeneration": 2}, (False, "Ready=False Made: done")),
        ({"status": "True", "observedGeneration": 1}, (False, "Ready=True Made: done")),
        ({"status": "True", "observedGeneration": 2}, (True, "Ready=True Made: done")),
    ],
)
def test_a_sample_is_ready_for_its_generation_only(
    condition: dict[str, Any] | None, expected: tuple[bool, str]
) -> None:
    words = {"type": "Ready", "reason": "Made", "message": "done"}
    conditions = [{**words, **condition}] if condition else []
    sample = Object({"metadata": {"name": "a", "generation": 2}, "status": {"conditions": conditions}})
    assert state_of(sample) == expected
    assert state_of(None) == (False, "")


def definition(plural: str, group: str = "tutorial.example.com") -> dict[str, Any]:
    return {"spec": {"group": group, "names": {"plural": plural}}}


@pytest.mark.parametrize("plural", sorted({each.plural for each in builtin()}))
def test_kind_named_like_a_builtin_kind_is_shown_with_its_group(plural: str) -> None:
    shown = names_for_kubectl([definition(plural), definition("websites")])
    assert shown == [f"{plural}.tutorial.example.com", "websites"]


def test_kinds_of_two_groups_with_one_plural_are_shown_with_their_groups() -> None:
    both = [definition("widgets", "a.example.com"), definition("widgets", "b.example.com"), definition("svc")]
    assert names_for_kubectl(both) == ["widgets.a.example.com", "widgets.b.example.com", "svc.tutorial.example.com"]
