"""docs/guide/deploy.md and docs/guide/hardening.md: each command in a block is run, section by section, on an API server in memory."""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helm_template import CHART
from kubectl_runner import Ran

from konverge.charts.values import values_of
from konverge.client import Client, ClientConfig
from konverge.crds import crd_stub, to_yaml
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge_testing import ApiServer
from konverge_testing.flux import flux_crds
from konverge_testing.kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.timeout(
    90, func_only=True
)  # the first test waits for the build of helm, which has its own limit

ROOT = CHART.parents[1]
PAGES = {name: (ROOT / f"docs/guide/{name}.md").read_text() for name in ("deploy", "hardening")}
HOME = "konverge-system"
DEPLOYMENT, POD = kind("apps/v1", "Deployment"), kind("v1", "Pod")
MONITORING = ("PodMonitor", "PrometheusRule", "ServiceMonitor")
FRESH = ("Install", "Values for common cases", "One release for each family")
"""Sections that begin without a release; the others begin with one."""
MONITORED = ("Monitoring", *FRESH[1:])
"""Sections that need the kinds of the Prometheus operator."""

WAITING = ("helm test", f"kubectl --namespace {HOME} rollout status")
"""Commands that wait for a node."""

_SECTION = re.compile(r"^## (?P<name>.+)\n(?P<text>(?:(?!^## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, list[tuple[str, str]]]:
    """Return the blocks of each section of both pages: language and text."""
    found = {
        section["name"]: _BLOCK.findall(section["text"])
        for page in PAGES.values()
        for section in _SECTION.finditer(page)
    }
    return {name: blocks for name, blocks in found.items() if blocks}


class Reader:
    """Runs the commands of the guide, in a folder with the content of a clone and of the examples."""

    def __init__(self, programs: dict[str, Path], kubeconfig: Path, folder: Path) -> None:
        self._programs = programs
        self._kubeconfig = kubeconfig
        self._folder = folder

    async def types(self, line: str) -> str:
        """Run one command; it has to succeed."""
        word, *arguments = shlex.split(line)
        if word == "konverge":
            ran = await self._run(sys.executable, "-m", "konverge.daemon.main", *arguments)
        elif not line.startswith(WAITING):
            ran = await self._run(str(self._programs[word]), *arguments)
        else:
            cluster = asyncio.create_task(self._act_as_node())
            ran = await self._run(str(self._programs[word]), *arguments)
            cluster.cancel()
            with suppress(asyncio.CancelledError):
                await cluster
        assert ran.code == 0, f"{line}\n{ran.err}\n{ran.out}"
        return ran.out

    async def _run(self, *command: str) -> Ran:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "KUBECONFIG": str(self._kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(40):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def _act_as_node(self) -> None:
        """Report Deployments as rolled out and pods as ended, as controllers and a kubelet would."""
        async with Client(await ClientConfig.from_kubeconfig(self._kubeconfig), name="node") as client:
            while True:
                for deployment in (await client.list(DEPLOYMENT)).items:
                    replicas = deployment.get("spec", "replicas")
                    counts = dict.fromkeys(
                        ("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), replicas
                    )
                    status = {"observedGeneration": deployment.metadata.generation, **counts}
                    await self._report(client, DEPLOYMENT, deployment, status)
                for pod in (await client.list(POD)).items:
                    await self._report(client, POD, pod, {"phase": "Succeeded"})
                await asyncio.sleep(0.05)

    async def _report(self, client: Any, what: Any, found: Any, status: dict[str, Any]) -> None:
        if found.get("status", default={}).items() >= status.items():
            return
        try:
            await client.patch(
                what, found.name, found.namespace, patch={"status": status}, style="merge", subresource="status"
            )
        except NotFound:
            pass  # it was deleted in the meantime


@pytest.fixture
async def reader(helm_program: Path, kubectl_program: Path, tmp_path: Path) -> AsyncIterator[Reader]:
    for path in ("charts", "deploy"):
        (tmp_path / path).symlink_to(ROOT / path)
    for example in (ROOT / "examples").glob("backup_*.py"):
        (tmp_path / example.name).symlink_to(example)
    async with (
        ApiServer(namespaces=("default", "kube-system", "web", "shop")) as server,
        server.http(tls=True) as shell,
    ):
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", shell)
        yield Reader({"helm": helm_program, "kubectl": kubectl_program}, kubeconfig, tmp_path)


@pytest.mark.parametrize("section", sections())
async def test_each_command_of_the_guide_does_what_it_says(reader: Reader, section: str, tmp_path: Path) -> None:
    if section not in FRESH:
        await reader.types(f"helm install konverge charts/konverge --namespace {HOME} --create-namespace")
    if section in MONITORED:
        await define(reader, [crd_stub(kind("monitoring.coreos.com/v1", name)) for name in MONITORING], tmp_path)
    if section == "Flux and Argo CD":
        await define(reader, [*flux_crds(), crd_stub(kind("argoproj.io/v1alpha1", "Application"))], tmp_path)
    for language, text in sections()[section]:
        if language == "yaml":
            (tmp_path / text.split()[1]).write_text(text)
            continue
        assert language == "sh", f"a block of {language}: only sh is run"
        for line in text.splitlines():
            if line.startswith(("helm install konverge ", "kubectl apply")):
                await remove(reader)
            out = await reader.types(line)
            if "can-i" in line:
                assert out == "yes\n"


async def define(reader: Reader, definitions: list[dict[str, Any]], folder: Path) -> None:
    """Install kinds of other products."""
    (folder / "stubs.yaml").write_text(to_yaml(*definitions))
    await reader.types("kubectl create -f stubs.yaml")
    await reader.types("kubectl wait --for=condition=Established --timeout=20s -f stubs.yaml")


async def remove(reader: Reader) -> None:
    """Remove the release of the previous block, so that the next block has a fresh start."""
    await reader.types(f"helm uninstall konverge --namespace {HOME} --ignore-not-found --wait")


def test_the_guide_installs_each_values_file() -> None:
    lines = [line for blocks in sections().values() for _, text in blocks for line in text.splitlines()]
    for path in (CHART / "values").iterdir():
        words = f"--values charts/konverge/values/{path.name}"
        assert any(line.startswith("helm install") and words in line for line in lines), path.name


@pytest.mark.parametrize("page", PAGES)
def test_the_guide_mentions_each_value_that_exists_under_its_name(page: str) -> None:
    known = {value.path for value in values_of((CHART / "values.yaml").read_text())}
    groups = {path.rpartition(".")[0] for path in known}
    named = re.findall(
        r"`((?:families|image|crds|webhooks|metrics|prometheusRule|dashboards|networkPolicy|userRoles)(?:\.\w+)+)[=`]",
        PAGES[page],
    )
    assert named
    assert {name for name in named if name not in known | groups} == set()
