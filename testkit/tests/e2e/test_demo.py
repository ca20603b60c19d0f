"""`konverge demo` as users run it: completely, on an API server in memory and on a control plane of its own."""

import asyncio
import base64
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from konverge.client import Client, ClientConfig
from konverge.kinds import kind
from konverge_testing.demo.samples import EXPECTED_BY_SECTION, NEXTCLOUDS, OPERATIONS

SECRET = kind("v1", "Secret")
ON_BOTH = pytest.mark.parametrize("plane", ["memory", pytest.param("real", marks=pytest.mark.control_plane)])
PATIENCE = 100.0


async def started(*words: str, ci: bool) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", "demo", *words),
        env={**environment, "CI": "true"} if ci else environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def output_until(process: asyncio.subprocess.Process, words: str) -> str:
    """Read the output up to a line with these words, or to its end."""
    assert process.stdout is not None
    text = ""
    async with asyncio.timeout(PATIENCE):
        async for line in process.stdout:
            text += line.decode()
            if words and words in text:
                break
    return text


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


@pytest.fixture
def no_kubectl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no program find kubectl: neither in PATH, nor in the cache, nor beside another control plane."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KONVERGE_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


async def test_the_demo_converges_and_ends_by_itself_without_kubectl(no_kubectl: None) -> None:
    said = await whole_demo("memory")
    assert "kubectl" not in said
    assert "chat waits for a Secret named chat-values with the key values.yaml" in said


@pytest.mark.control_plane
async def test_the_demo_on_a_real_control_plane_converges_and_names_kubectl() -> None:
    assert "kubectl" in await whole_demo("real")


async def whole_demo(plane: str) -> str:
    """Run the demo as CI does, check that each sample converged, and return the output."""
    process = await started("--control-plane", plane, ci=True)
    said = await output_until(process, "")
    assert await ended(process) == 0, said
    assert "no Helm runs in this demo" in said
    assert "All samples converged." in said
    assert re.search(r"^wiki +Ready=True HelmReleaseReady", said, re.MULTILINE)
    assert re.search(r"^mail +Ready=True Placeholder", said, re.MULTILINE)
    assert re.search(r"^chat +Ready=False WaitingForSecret", said, re.MULTILINE)
    for name in EXPECTED_BY_SECTION[OPERATIONS]:
        assert re.search(rf"^op/{name} +Phase=Succeeded EngineCompleted", said, re.MULTILINE), name
    assert re.search(r"^cluster/demo +Phase=Connected RoundTripOK", said, re.MULTILINE)
    assert re.search(r"^news +Ready=True HelmReleaseReady", said, re.MULTILINE)
    assert re.search(r"^pool/small +Ready=True Full", said, re.MULTILINE)
    for name in EXPECTED_BY_SECTION[NEXTCLOUDS]:
        assert re.search(rf"^nextcloud/{name} +Assigned=True Assigned", said, re.MULTILINE), name
    waited = re.search(r"^nextcloud/(\w+) +Assigned=False PoolExhausted:", said, re.MULTILINE)
    assert waited is not None
    assert re.search(rf"^nextcloud/{waited[1]} +Assigned=True Assigned", said[waited.end() :], re.MULTILINE)
    assert "nothing is backed up or run" in said
    assert "\x1b" not in said
    assert re.search(r"^  page +http://127\.0\.0\.1:\d+/debug/ui$", said, re.MULTILINE)
    assert "correct-horse" not in said
    return said


@ON_BOTH
async def test_the_demo_stays_until_sigterm_and_leaves_nothing_behind(plane: str) -> None:
    process = await started("--control-plane", plane, ci=False)
    said = await output_until(process, "Ctrl-C ends it")
    await ended_by(process, signal.SIGTERM, kubeconfig_of(said))


def kubeconfig_of(said: str) -> Path:
    found = re.search(r"KUBECONFIG=(\S+)", said)
    assert found is not None, said
    return Path(found[1])


async def ended_by(process: asyncio.subprocess.Process, number: signal.Signals, kubeconfig: Path) -> None:
    """Send a signal to a demo that stays, and check that it ends well and leaves nothing behind."""
    assert kubeconfig.exists()
    process.send_signal(number)
    rest = await output_until(process, "")
    assert await ended(process) == 0, rest
    assert "nothing is left behind" in rest
    assert not kubeconfig.exists()
    assert not kubeconfig.parent.exists()


@ON_BOTH
async def test_replica_demo_moves_claims_from_killed_and_stopped_replicas(plane: str) -> None:
    process = await started("--control-plane", plane, "--replicas=3", ci=True)
    said = await output_until(process, "")
    assert await ended(process) == 0, said
    assert re.search(r"^claim-00 +replica-\d Phase=Ready Reconciled", said, re.MULTILINE)
    killed = re.search(
        r"replica-0 is killed\n(?:.*\n)*? +after ([\d.]+) s its claims belong to replica-1 and replica-2", said
    )
    stopped = re.search(r"replica-1 is stopped\n(?:.*\n)*? +after ([\d.]+) s its claims belong to replica-2", said)
    assert killed is not None, said
    assert stopped is not None, said
    assert float(killed[1]) > 4.0, "the lease of a replica that is killed has to run out"
    assert float(stopped[1]) < 4.0, "one that is stopped gives its claims back"
    assert "Each workspace was made once: 18. Calls of a former owner: 0." in said
    assert "top-secret" not in said


async def test_machine_demo_spreads_and_scales_a_pool_and_drains_a_node() -> None:
    process = await started("--machines", ci=True)
    said = await output_until(process, "")
    assert await ended(process) == 0, said
    spread, scaled = (
        rf"^machines/workers {wanted} wanted \(us-west-2a {a}, us-west-2b {b}, us-west-2c {c}\), {wanted} nodes, Ready=True Reconciled"
        for wanted, a, b, c in ((3, 1, 1, 1), (7, 3, 2, 2))
    )
    node = re.search(r"^ +(node-\w+) was drained, acknowledged \(\d+\), and its id left the pool$", said, re.MULTILINE)
    assert node is not None, said
    places = [re.search(words, said, re.MULTILINE) for words in (spread, "is scaled to 7", scaled)]
    found = [place.start() for place in places if place is not None]
    assert len(found) == 3, said
    assert found == sorted(found)
    assert found[-1] < node.start()


async def test_default_api_server_in_memory_serves_others_until_ctrl_c() -> None:
    process = await started(ci=False)
    said = await output_until(process, "Ctrl-C ends it")
    assert said.startswith("==> starting an API server in memory\n"), said
    kubeconfig = kubeconfig_of(said)
    config = await ClientConfig.from_kubeconfig(kubeconfig)
    assert config.server.startswith("https://127.0.0.1:")
    async with Client(config, name="somebody") as client:
        secret = SECRET.new("chat-values", "demo", data={"values.yaml": base64.b64encode(b"replicas: 1").decode()})
        await client.create(secret)
    assert re.search(r"^chat +Ready=True", await output_until(process, "chat   Ready=True"), re.MULTILINE)
    await ended_by(process, signal.SIGINT, kubeconfig)


async def test_demo_without_convergence_in_time_fails_and_shows_the_log() -> None:
    process = await started("--timeout", "0.2", ci=True)
    said = await output_until(process, "")
    assert await ended(process) == 1, said
    assert "not all samples converged in time; expected shop: Ready=True HelmReleaseReady" in said
    assert "serving" in said
