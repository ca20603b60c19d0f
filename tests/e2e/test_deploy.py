"""The manifests under deploy/ are fresh, a real API server accepts them, and they suffice to run the daemon as its pod would."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import render_deploy
import yaml
from audit import audited, rights_of, until_audited
from family_uses import UNUSED, change_source_and_values, install_and_remove, share_a_pool, shop
from operators import Operator
from patience import PATIENCE
from release.copies import facts_of

from konverge.client import Client, ClientConfig
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.daemon.settings import Settings
from konverge.errors import Forbidden
from konverge.kinds import kind
from konverge.reconcilers.apps.kinds import SECRET
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab, install_crds
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.proxy import ProxiedRequest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMESPACE = "konverge-system"
POD = kind("v1", "Pod")
DOCUMENTS = (
    "Namespace",
    *("CustomResourceDefinition",) * 4,
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    *("Role",) * 2,
    *("RoleBinding",) * 2,
    *("ClusterRole",) * 3,
    "Service",
    "PodDisruptionBudget",
    "Deployment",
)
control_plane_test = pytest.mark.control_plane


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document]


def deployment() -> dict[str, Any]:
    [found] = documents("deployment.yaml")
    return found


def template() -> dict[str, Any]:
    found: dict[str, Any] = deployment()["spec"]["template"]
    return found


def container() -> dict[str, Any]:
    [found] = template()["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def port_of(probe: str) -> tuple[str, int]:
    """Return path and number of the port of a probe."""
    asked = container()[probe]["httpGet"]
    numbers = {port["name"]: port["containerPort"] for port in container()["ports"]}
    return asked["path"], numbers[asked["port"]]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def version() -> str:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


# --- fresh, and of one mind -----------------------------------------------------------------------------------------------------


def test_the_manifests_were_rendered_from_this_state_of_the_chart() -> None:
    """Needs no helm, so it does not render the chart; it checks only that neither chart nor manifests have changed since.

    testkit/tests/e2e/apiserver/test_chart_values.py renders the chart if helm is available.
    """
    assert render_deploy.is_fresh(), "make generate"


def test_the_kustomization_names_every_manifest() -> None:
    [kustomization] = documents("kustomization.yaml")
    assert set(kustomization["resources"]) == {path.name for path in DEPLOY.glob("*.yaml")} - {"kustomization.yaml"}
    found = [document["kind"] for name in kustomization["resources"] for document in documents(name)]
    assert tuple(found) == DOCUMENTS
    image = facts_of(ROOT).image
    assert container()["image"] == f"{image}:{version()}"
    assert kustomization["images"] == [{"name": image, "newName": image, "newTag": version()}]


def test_the_probes_ask_where_the_daemon_answers() -> None:
    defaults = Settings()
    assert {port["name"]: f":{port['containerPort']}" for port in container()["ports"]} == {
        "metrics": defaults.metrics,
        "health": defaults.health,
    }
    assert port_of("startupProbe")[0] == port_of("livenessProbe")[0] == "/healthz"
    assert port_of("readinessProbe")[0] == "/readyz"
    assert {port_of(probe)[1] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {8081}


def test_the_pod_has_longer_to_end_than_the_daemon_takes() -> None:
    assert template()["spec"]["terminationGracePeriodSeconds"] > Settings().drain


def test_a_second_pod_stands_by_before_the_first_one_goes() -> None:
    assert deployment()["spec"]["replicas"] == 2
    assert deployment()["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    [budget] = documents("poddisruptionbudget.yaml")
    assert budget["spec"]["selector"] == deployment()["spec"]["selector"]


def test_image_builds_from_a_base_without_host_and_runs_unprivileged() -> None:
    found = instructions()
    [(_, argument), *others] = [one for one in found if one[0] == "ARG"]
    assert others == [("ARG", "COMMIT="), ("ARG", "BUILD=")], "no other argument changes the image"
    assert re.fullmatch(r"PYTHON=[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", argument), (
        "no host, and a base that does not change"
    )
    assert {rest.split()[0] for word, rest in found if word == "FROM"} == {"${PYTHON}"}
    after = found[max(index for index, (word, _) in enumerate(found) if word == "FROM") :]
    assert ("USER", "65532:65532") in after
    security = template()["spec"]["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"]) == (65532, 65532)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    [entry] = [json.loads(rest) for word, rest in after if word == "ENTRYPOINT"]
    assert [scripts[name] for name in entry] == ["konverge.daemon.main:main"]
    assert [json.loads(rest) for word, rest in after if word == "CMD"] == [container()["args"]]


def test_the_containerfile_copies_all_that_the_wheel_is_built_from() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, packed = pyproject["project"], pyproject["tool"]["setuptools"]
    folders = {folder.split("/")[0] for folder in packed["package-dir"].values()}
    needed = {
        "pyproject.toml",
        "MANIFEST.in",
        "deploy/requirements.txt",
        "deploy/requirements-build.txt",
        project["readme"],
        *project["license-files"],
        *folders,
    }
    copies = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    copied = {name for names in copies for name in names}
    assert copied == needed
    assert all((ROOT / name).exists() for name in copied)
    assert not copied & set((ROOT / ".dockerignore").read_text().split())


# --- on a real API server -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of its own: the manifests are cluster-wide."""
    with ControlPlane(ControlPlaneConfig(controllers=True, audit=True)) as running:
        yield running


async def deploy(plane: ControlPlane) -> str:
    """Follow docs/guide/deploy.md."""
    return await plane.kubectl("apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-k", str(DEPLOY))


@control_plane_test
async def test_the_manifests_are_accepted_strictly_and_applying_them_again_changes_nothing(plane: ControlPlane) -> None:
    said = await deploy(plane)
    assert said.count("serverside-applied") == len(DOCUMENTS), said
    before = await _versions(plane)
    await deploy(plane)
    assert await _versions(plane) == before
    await plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(DEPLOY / "crds.yaml"))


async def _versions(plane: ControlPlane) -> str:
    # The Deployment has no status here: this plane runs no controller of Deployments.
    listed = ("namespace/konverge-system", "deployment/konverge", "serviceaccount/konverge")
    form = "--output=jsonpath={.metadata.resourceVersion}"
    return " ".join([await plane.kubectl("get", one, "-n", NAMESPACE, form) for one in listed])


@control_plane_test
async def test_the_pod_passes_the_strictest_pod_security(plane: ControlPlane) -> None:
    await deploy(plane)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    pod = {"metadata": {"name": "konverge", "namespace": NAMESPACE}, "spec": template()["spec"]}
    async with Client(config, name="test") as client:
        made = await client.create(POD.decode(pod), dry_run=True)
        assert made.get("spec", "serviceAccountName") == "konverge"
        [mount] = made.get("spec", "containers", 0, "volumeMounts")
        assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
        [container_] = pod["spec"]["containers"]
        looser = {**container_, "securityContext": {**container_["securityContext"], "allowPrivilegeEscalation": True}}
        with pytest.raises(Forbidden, match="restricted"):
            await client.create(POD.decode({**pod, "spec": {**pod["spec"], "containers": [looser]}}), dry_run=True)


def environment(plane: ControlPlane, mount: Path) -> dict[str, str]:
    """The environment of the container: the manifest's variables, the kubelet's variables, and this test's paths in place of a node's."""
    here = {"KONVERGE_SERVICE_ACCOUNT": str(mount)}
    free_ports = dict.fromkeys(("KONVERGE_METRICS", "KONVERGE_HEALTH", "KONVERGE_DEBUG"), "127.0.0.1:0")
    declared = {entry["name"]: entry["value"] for entry in container()["env"]}
    return {**plane.environment, **declared, **here, **free_ports, "PYTHONPROFILEIMPORTTIME": "1"}


def told_errors(daemon: Operator) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["level"] == "error" or "rbac_rule" in line]


@control_plane_test
@pytest.mark.timeout(180)
async def test_the_daemon_runs_as_its_pod_would(plane: ControlPlane, tmp_path: Path) -> None:
    await deploy(plane)
    mount = tmp_path / "serviceaccount"
    await plane.service_account_files(mount, namespace=NAMESPACE, name=template()["spec"]["serviceAccountName"])
    word, *arguments = container()["args"]
    assert word == "run"
    daemon = Operator(arguments, tmp_path / "log", environment=environment(plane, mount))
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with (
        Client(config, name="test") as client,
        Lab(client, config, "default", patience=PATIENCE) as lab,
        daemon.running_for(),
    ):
        assert await daemon.answers(port_of("startupProbe")[0]) == (200, "ok")
        assert await daemon.answers(port_of("livenessProbe")[0]) == (200, "ok")
        await install_crds(client, flux_crds())
        await daemon.ready()
        assert await daemon.answers(port_of("readinessProbe")[0]) == (200, "ok")
        async with HelmController(config):
            await install_and_remove(lab)
        status, exposition = await daemon.answers("/metrics", part="metrics")
        assert status == 200
        assert 'controller_runtime_reconcile_total{controller="applicationinstance",result="success"}' in exposition
        assert await daemon.stop() == 0
    assert daemon.said("stopped") is not None
    assert told_errors(daemon) == []
    imported = daemon.log.read_text()
    assert "konverge.client.in_cluster" in imported, "the log shows what was imported"
    assert "kubernetes_asyncio" not in imported


# --- the rights -----------------------------------------------------------------------------------------------------------------


@control_plane_test
@pytest.mark.timeout(180)
async def test_audit_log_shows_no_denial_and_every_printed_right_in_use(plane: ControlPlane, tmp_path: Path) -> None:
    await deploy(plane)
    account = template()["spec"]["serviceAccountName"]
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    mount = tmp_path / "serviceaccount"
    await plane.service_account_files(mount, namespace=NAMESPACE, name=account)
    await plane.create_namespace("rights")
    await plane.kubectl("delete", "lease", "konverge", "-n", NAMESPACE, "--ignore-not-found")  # of the tests before
    daemon = Operator(container()["args"][1:], tmp_path / "log", environment=environment(plane, mount))
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    before = len(audited(plane))
    async with Client(config, name="test") as client, Lab(client, config, "rights", patience=PATIENCE) as lab:
        await install_crds(client, flux_crds())
        async with daemon.running_for(), HelmController(config, namespace="rights"):
            await daemon.ready()
            await asyncio.gather(install_and_remove(lab), change_source_and_values(lab), share_a_pool(lab))
            assert await daemon.stop() == 0
        assert await lab.find(SECRET, "the-end") is None
        await until_audited(plane, ProxiedRequest("GET", "/api/v1/namespaces/rights/secrets/the-end"))
    rules = [rule for document in documents("rbac.yaml") for rule in document.get("rules", ())]
    asked = [one for one in audited(plane)[before:] if one.user == user]
    used = {right for one in asked for right in one.rights}
    assert {right for one in asked if one.code == 403 for right in one.rights} == set(), "denied"
    unused = rights_of(rules) - used
    assert unused == UNUSED.keys(), (
        f"unused and without a reason: {sorted(unused - UNUSED.keys())}; used after all: {sorted(UNUSED.keys() - unused)}"
    )


@control_plane_test
@pytest.mark.timeout(180)
async def test_secrets_narrowed_to_a_namespace_need_only_a_role_in_it(plane: ControlPlane, tmp_path: Path) -> None:
    await deploy(plane)
    narrowed = ("--set", "apps.secret_namespaces=narrow", "--set", "apps.watch_secrets=true")
    elected = ("--set", "election.enabled=true")
    for name in ("narrow", "wide"):
        await plane.create_namespace(name)
    mount = tmp_path / "serviceaccount"
    await plane.service_account_files(mount, namespace=NAMESPACE, name="narrowed")
    # Without the pools: they keep the Secrets of their instances in each namespace.
    families = ("--controllers", "apps,quota,clusters")
    account = ("--name", "narrowed", "--service-account", f"{NAMESPACE}/narrowed")
    words = ("rbac", *families, *account, *narrowed, *elected)
    printed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "konverge.daemon.main", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    roles = {one["metadata"].get("namespace", ""): one for one in yaml.safe_load_all(printed.stdout) if "rules" in one}
    # The Clusters of pull mode have their credentials in the namespace of the daemon.
    assert {place for place, role in roles.items() if "secrets" in str(role)} == {"narrow", NAMESPACE}
    await plane.kubectl("apply", "-f", "-", stdin=printed.stdout)
    daemon = Operator([*container()["args"][1:], *narrowed], tmp_path / "log", environment=environment(plane, mount))
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with (
        Client(config, name="test") as client,
        Lab(client, config, "narrow", patience=PATIENCE) as lab,
        Lab(client, config, "wide", patience=PATIENCE) as elsewhere,
    ):
        await install_crds(client, flux_crds())
        async with daemon.running_for(), HelmController(config, namespace="narrow"):
            await daemon.ready()
            await elsewhere.create(shop("wide"))
            told = await elsewhere.until(ApplicationInstance, "shop", is_blocked)
            assert "add wide to the setting apps.secret_namespaces" in told.condition("Blocked").message
            await install_and_remove(lab)
            await elsewhere.delete(ApplicationInstance, "shop")
            await elsewhere.until_gone(ApplicationInstance, "shop")
            assert await daemon.stop() == 0
    assert told_errors(daemon) == []


def is_blocked(found: ApplicationInstance) -> bool:
    blocked = found.find_condition("Blocked")
    return blocked is not None and blocked.is_true


@control_plane_test
async def test_without_its_binding_the_daemon_is_alive_and_names_the_rules(plane: ControlPlane, tmp_path: Path) -> None:
    """The result of the test above depends only on the manifests, and not on other rights of the account."""
    await deploy(plane)
    mount = tmp_path / "serviceaccount"
    await plane.service_account_files(mount, namespace=NAMESPACE, name="somebody-else")
    daemon = Operator(container()["args"][1:], tmp_path / "log", environment=environment(plane, mount))
    async with daemon.running_for():
        text = ""
        async with asyncio.timeout(60):
            while "applicationinstances" not in text:  # each cache gets its own 403: another may be named first
                status, text = await daemon.answers("/readyz")
                await asyncio.sleep(0.1)
        assert status == 500
        assert "resources:\n" in text
        assert await daemon.answers("/healthz") == (200, "ok")
        assert await daemon.stop() == 0
