"""A real kube-apiserver converts by our webhook: with the printed rights, both versions at once, and a migration that lets the old one go."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog
from mirror_operator import MIRRORS, Mirror, MirrorSpec, MirrorStatus, MirrorV1, MirrorV1Spec, Target, build

import konverge as kv
from konverge.client import Client
from konverge.crds import crd
from konverge.daemon.crds import apply_all
from konverge.errors import Conflict, ServerFailure
from konverge.runtime.admission.configurations import DEFINITION
from konverge_testing import Lab
from konverge_testing.clients import ClientFor
from konverge_testing.ports import ReservedPort

pytestmark = pytest.mark.control_plane

T = TypeVar("T")
NAME = "mirrors.mirrors.example.com"
EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = kv.kind("v1", "Secret")


@kv.resource("mirrors.example.com/v1", kind="Mirror")
class FirstMirror(kv.CustomResource[MirrorV1Spec, MirrorStatus]):
    """The version that the first release stored."""


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    port = ReservedPort("127.0.0.1")
    yield port
    port.release()


async def converted(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request until the API server has read the certificates in the definition."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await attempt()
            except (ServerFailure, Conflict):
                await asyncio.sleep(0.1)


async def konverge(*words: str, kubeconfig: Path) -> tuple[int, str]:
    """Run a command in the folder of the examples; returns its exit code and its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", *words, "--kubeconfig", str(kubeconfig)),
        cwd=EXAMPLES,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def definition(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = (await lab.client.get(DEFINITION, NAME)).data
    return found


async def test_a_field_changes_its_type_while_clients_work(
    lab: Lab, port: ReservedPort, client_for: ClientFor, admin_kubeconfig: Path
) -> None:
    # The first release: v1 is the only version.
    await apply_all(lab.client, [crd(FirstMirror)])
    for number in range(3):
        spec = MirrorV1Spec(source="git.example.com/docs", target="s3://a")
        await lab.create(FirstMirror.new(f"m{number}", spec=spec))

    # The second release, with exactly the printed rights.
    address = f"127.0.0.1:{port.number}"
    webhooks = kv.WebhookSettings(
        address=address, url=f"https://{address}", secret=f"{lab.namespace}/hooks", look_seconds=0.2
    )
    settings = kv.ManagerSettings(namespace=lab.namespace, strict=True, webhooks=webhooks)
    described = kv.Manager("mirror-operator", settings=settings)
    build(described)
    client = await client_for("operator", cluster_rules=[rule.to_dict() for rule in described.rules()])
    await lab.create(SECRET.new("hooks"))
    manager = await lab.start(
        build, name="mirror-operator", config=client.config, settings=settings, wait=False, crds=False
    )
    async with asyncio.timeout(60):
        while "has no conversion webhook: apply what `konverge crds` prints" not in str(manager.report()):
            await asyncio.sleep(0.05)
    code, output = await konverge(
        *("crds", "mirror_operator:build", "--apply", "--set", f"webhooks.url=https://{address}"),
        kubeconfig=admin_kubeconfig,
    )
    assert (code, output) == (0, f"customresourcedefinition/{NAME} configured\n")
    await manager.wait_ready(timeout=90)

    # Both versions work at once, and v1 loses nothing that it cannot hold.
    mirror = await lab.until(Mirror, "m0", kv.is_true("Ready"))
    assert mirror.spec.targets == (Target(url="s3://a"),)
    more = {"spec": {"targets": [{"url": "s3://a"}, {"url": "s3://b", "region": "north"}]}}
    await lab.client.patch(Mirror, "m0", lab.namespace, patch=more, style="merge")
    source = {"spec": {"source": "git.example.com/handbook"}}
    old = await lab.client.patch(MirrorV1, "m0", lab.namespace, patch=source, style="merge")
    assert old.spec.target == "s3://a"
    await lab.client.apply(
        MirrorV1,
        MirrorV1.new("m1", lab.namespace, spec=MirrorV1Spec(source="x", target="s3://c")).to_dict(),
        force=True,
    )
    mirror = await lab.get(Mirror, "m0")
    assert [target.url for target in mirror.spec.targets] == ["s3://a", "s3://b"]
    assert (mirror.spec.source, mirror.spec.targets[1].region) == ("git.example.com/handbook", "north")
    assert (await lab.get(Mirror, "m1")).spec.targets[0].url == "s3://c"
    assert len((await lab.client.list(MirrorV1, lab.namespace)).items) == 3

    # Every object is stored in v2, and v1 can be removed.
    assert (await definition(lab))["status"]["storedVersions"] == ["v1", "v2"]
    version = (await lab.get(Mirror, "m2")).metadata.generation
    code, output = await konverge("crds", "mirror_operator:build", "--migrate-storage", kubeconfig=admin_kubeconfig)
    assert (code, output) == (0, f"{NAME}: 3 objects rewritten in v2; storedVersions was v1, v2\n")
    assert (await definition(lab))["status"]["storedVersions"] == ["v2"]
    assert (await lab.get(Mirror, "m2")).metadata.generation == version
    async with Client(lab.config, name="konverge-crds") as crds:
        assert await apply_all(crds, [crd(Mirror)]) == [(NAME, "configured")]
        assert await apply_all(crds, [crd(Mirror)]) == [(NAME, "unchanged")]
    async with asyncio.timeout(60):
        while len((await definition(lab))["spec"]["versions"]) > 1 or (await lab.find(Mirror, "m2")) is None:
            await asyncio.sleep(0.1)
    assert sorted(each.name for each in (await lab.client.list(Mirror, lab.namespace)).items) == ["m0", "m1", "m2"]
    await lab.client.delete(DEFINITION, NAME)


async def test_a_lab_on_a_real_server_converts_and_names_failures(lab: Lab) -> None:
    await lab.start(build)
    targets = (Target(url="s3://a"), Target(url="s3://b"))
    await lab.create(Mirror.new("docs", spec=MirrorSpec(source="x", targets=targets)))
    old = await converted(lambda: lab.get(MirrorV1, "docs"))
    assert old.spec.target == "s3://a"
    text = '[{"path":["spec","source"],"value":7,"left":"x"}]'
    forged = {"metadata": {"annotations": {"konverge.dev/kept-fields": text}}}
    with pytest.raises(
        ServerFailure, match=r"Mirror .*/docs of mirrors\.example\.com/v1 cannot be .*remove the annotation"
    ):
        await lab.client.patch(MirrorV1, "docs", lab.namespace, patch=forged, style="merge")
    assert MIRRORS.crd_name == NAME
