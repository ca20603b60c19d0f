"""Values that users of other charts expect, the values files for common cases, and charts under Flux or Argo CD."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml
from helm_template import CHART, Rendered, Template, check_names, deep, merged
from kubectl_runner import Kubectl

from konverge.charts.other_names import OTHER_NAMES

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = pytest.mark.timeout(
    60, func_only=True
)  # the first test waits for the build of helm, which has its own limit

BOTH = pytest.mark.parametrize("chart", [None, "backup_admission:build"], indirect=True, ids=["daemon", "operator"])
CASES = sorted(path.name for path in (CHART / "values").iterdir())
SIDECAR = {"name": "proxy", "image": "proxy:1"}
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}

POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)
PLACES: dict[str, tuple[Any, tuple[str | int, ...], Any]] = {
    "automountServiceAccountToken": (False, (*POD, "automountServiceAccountToken"), False),
    "dnsConfig": ({"searches": ["a.example"]}, (*POD, "dnsConfig"), {"searches": ["a.example"]}),
    "dnsPolicy": ("None", (*POD, "dnsPolicy"), "None"),
    "extraArgs": (["--log-level=debug"], (*CONTAINER, "args", -1), "--log-level=debug"),
    "extraContainers": ([SIDECAR], (*POD, "containers", 1), SIDECAR),
    "global.imageRegistry": ("mirror.example/", (*CONTAINER, "image"), r"mirror\.example/(konverge|backup):.+"),
    "hostAliases": ([{"ip": "10.0.0.1"}], (*POD, "hostAliases"), [{"ip": "10.0.0.1"}]),
    "hostNetwork": (True, (*POD, "hostNetwork"), True),
    "image.registry": ("reg.example:5000", (*CONTAINER, "image"), r"reg\.example:5000/(konverge|backup):.+"),
    "initContainers": ([SIDECAR], (*POD, "initContainers"), [SIDECAR]),
    "revisionHistoryLimit": (0, ("spec", "revisionHistoryLimit"), 0),
    "runtimeClassName": ("gvisor", (*POD, "runtimeClassName"), "gvisor"),
    "settings.log_level": ("debug", (*CONTAINER, "env"), {"name": "KONVERGE_LOG_LEVEL", "value": "debug"}),
    "strategy": ({"type": "Recreate"}, ("spec", "strategy"), {"type": "Recreate"}),
}
"""Another value, a path in the Deployment, and what is there: the pattern of a text, or an entry of `env`."""


@BOTH
@pytest.mark.parametrize("path", PLACES)
def test_a_usual_value_is_in_its_place_of_the_deployment(template: Template, path: str) -> None:
    value, place, expected = PLACES[path]
    found: Any = template(deep(path, value)).one("Deployment")
    for key in place:
        found = found[key]
    if place[-1] == "env":
        assert expected in found
    elif place[-1] == "image":
        assert re.fullmatch(expected, found)
    else:
        assert found == expected


@BOTH
def test_extra_objects_and_a_least_number_of_pods_are_rendered(template: Template) -> None:
    texts = [OBJECT, yaml.safe_dump({**OBJECT, "kind": "LimitRange"})]
    rendered = template({"extraObjects": texts, "podDisruptionBudget": {"minAvailable": "50%"}, "replicas": 3})
    assert (
        rendered.one("ConfigMap")["metadata"]["name"]
        == rendered.one("LimitRange")["metadata"]["name"]
        == "konverge-more"
    )
    budget = rendered.one("PodDisruptionBudget")["spec"]
    assert (budget["minAvailable"], "maxUnavailable" in budget) == ("50%", False)


@BOTH
def test_a_name_of_another_chart_is_refused_with_our_name(template: Template) -> None:
    complaint = template.refused(merged(*(deep(path, "other") for path in OTHER_NAMES)))
    assert {path for path, ours in OTHER_NAMES.items() if f"{path} (write {ours})" not in complaint} == set()


def test_pods_in_their_nodes_network_hide_debug_and_free_ports_first(template: Template) -> None:
    rendered = template({"hostNetwork": True})
    assert rendered.pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert rendered.environment["KONVERGE_DEBUG"] == "0", "the loopback is the node's"
    rolling = rendered.one("Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    chosen = template({"hostNetwork": True, "settings": {"debug": "127.0.0.1:9"}})
    assert chosen.environment["KONVERGE_DEBUG"] == "127.0.0.1:9"
    assert "KONVERGE_DEBUG" not in template().environment


def test_a_strategy_of_a_stateful_set_is_its_update_strategy(template: Template) -> None:
    rendered = template({"sharding": {"mode": "ordinal"}, "strategy": {"type": "OnDelete"}})
    spec = rendered.one("StatefulSet")["spec"]
    assert (spec["updateStrategy"], "strategy" in spec) == ({"type": "OnDelete"}, False)


def test_the_account_gives_no_token_to_pods_that_do_not_ask(template: Template) -> None:
    rendered = template()
    assert rendered.one("ServiceAccount", "konverge")["automountServiceAccountToken"] is False
    assert rendered.pod["automountServiceAccountToken"] is True


# --- values files ----------------------------------------------------------------------------------------------------------------


def of_case(template: Template, name: str) -> Rendered:
    return template(yaml.safe_load((CHART / "values" / name).read_text()))


@pytest.mark.parametrize("name", CASES)
def test_helm_finds_nothing_wrong_with_a_values_file(helm_program: Path, template: Template, name: str) -> None:
    words = (helm_program, "lint", "--strict", CHART, "--values", CHART / "values" / name)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout + done.stderr
    rendered = of_case(template, name)
    check_names(rendered)
    if name.startswith("only-"):
        assert rendered.environment["KONVERGE_CONTROLLERS"] == name.removeprefix("only-").removesuffix(".yaml")


def test_a_small_cluster_runs_one_process_without_a_lease(template: Template) -> None:
    rendered = of_case(template, "small.yaml")
    assert rendered.one("Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert not [each for each in rendered.objects if "election" in each["metadata"]["name"]]


def test_with_one_namespace_the_daemon_has_no_right_in_the_cluster(template: Template) -> None:
    rendered = of_case(template, "one-namespace.yaml")
    assert {right[0] for right in rendered.rights} == {"web", "konverge-system"}
    assert not rendered.all("ClusterRole")


def test_production_uses_what_the_hardening_page_recommends(template: Template) -> None:
    rendered = of_case(template, "production.yaml")
    kinds = {
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PrometheusRule",
        "ServiceMonitor",
        "ValidatingWebhookConfiguration",
    }
    assert kinds <= rendered.kinds
    assert rendered.environment["KONVERGE_METRICS_SECURE"] == "true"


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize("words", [("--server-side", "--field-manager=flux"), ()], ids=["Flux", "Argo CD"])
async def test_certificates_of_the_daemon_are_no_drift(
    kubectl_program: Path, place: Place, template: Template, words: tuple[str, ...]
) -> None:
    """helm-controller compares by a server-side dry run, Argo CD by a three-way difference, as kubectl without --server-side does."""
    kubectl = Kubectl(kubectl_program, place.kubeconfig, place.home, place.namespace)
    values = yaml.safe_load((CHART / "values" / "gitops.yaml").read_text())
    rendered = template(merged(values, {"webhooks": {"enabled": True}}))
    kept = ("Secret", "CustomResourceDefinition", "ValidatingWebhookConfiguration", "ServiceAccount")
    objects = [each for each in rendered.objects if each["kind"] in kept]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    await kubectl("create", "namespace", "konverge-system")
    own = ("--namespace=konverge-system", "-f", "-")
    await kubectl("apply", *words, *own, stdin=text)
    annotations = (await kubectl.read("crd", "resourcepools.capsule.clastix.io"))["metadata"]["annotations"]
    assert annotations.items() >= values["crds"]["annotations"].items()
    secret, webhooks = "secret/konverge-webhooks", "validatingwebhookconfiguration/konverge"
    certificate = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    await kubectl("patch", secret, *own[:1], "--type=merge", "-p", '{"data": {"tls.crt": "YQ=="}}')
    bundle = json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": certificate}])
    await kubectl("patch", webhooks, "--type=json", "-p", bundle)
    same = await kubectl.run("diff", *words, *own, stdin=text)
    assert (same.code, same.out) == (0, ""), same.err
    removed = json.dumps([{"op": "remove", "path": "/metadata/labels/app.kubernetes.io~1instance"}])
    await kubectl("patch", secret, *own[:1], "--type=json", "-p", removed)
    differs = await kubectl.run("diff", *words, *own, stdin=text)
    assert differs.code == 1, "a real drift is seen"
    assert "tls.crt" not in "".join(line for line in differs.out.splitlines() if line.startswith(("+ ", "- ")))


# --- the chart of another operator -----------------------------------------------------------------------------------------------

OURS = re.compile(
    r"\b(famil(y|ies)|pools?|quotas?|workspaces?|machines?|clusters|kcp|nextclouds?|nstance|applicationinstances?"
    r"|cluster-api|capsule|vworkspace|docs/guide)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("chart", ["backup_admission:build"], indirect=True)
def test_the_chart_of_an_operator_mentions_no_family(chart: Path) -> None:
    texts = {path.relative_to(chart).as_posix(): path.read_text() for path in chart.rglob("*") if path.is_file()}
    mentions = {
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if OURS.search(line)
    }
    assert mentions == set()
    assert {"values/small.yaml", "values/production.yaml", "values/gitops.yaml"} <= texts.keys()
