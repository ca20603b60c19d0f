"""`konverge apiserver run` as a program: its line, its kubeconfig, its options, and its end."""

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest
from served_apiserver import served

from konverge.client import Client, ClientConfig
from konverge.errors import NotServed
from konverge.kinds import kind

CRDS = Path(__file__).parents[3] / "crds" / "manifests"
CONFIG_MAP = kind("v1", "ConfigMap")
INSTANCE = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance")
NAMESPACE = kind("v1", "Namespace", namespaced=False)
SERVICE_ACCOUNT = kind("v1", "ServiceAccount")


async def client_of(kubeconfig: Path) -> Client:
    return Client(await ClientConfig.from_kubeconfig(kubeconfig), name="t")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_ready_line_names_url_and_a_working_kubeconfig_that_signals_remove(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "kubeconfig"
    async with served(path) as server:
        assert re.fullmatch(rf"ready: https://127\.0\.0\.1:\d+, kubeconfig {re.escape(str(path))}\n", server.line)
        assert path.stat().st_mode & 0o777 == 0o600
        async with await client_of(path) as client:
            await client.create(CONFIG_MAP.new("ours", "default"))
            with pytest.raises(NotServed):
                await client.list(INSTANCE, "default")
        assert await server.end(number) == (0, f"stopped; {path} is removed\n")
    assert list(tmp_path.iterdir()) == []


async def test_definitions_and_administrator_token_are_served_from_the_ready_line_on(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with served(path, "--crds", CRDS, "--token", "t-1", "--no-controllers") as server:
        assert json.loads(path.read_text())["users"][0]["user"] == {"token": "t-1"}
        async with await client_of(path) as client:
            assert (await client.list(INSTANCE, "default")).items == []
            await client.create(NAMESPACE.new("web"))
            assert (await client.list(SERVICE_ACCOUNT, "web")).items == []
        path.unlink()
        path.write_text("another program's")
        await server.end()
    assert path.read_text() == "another program's"


async def test_a_port_that_is_taken_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with served(first) as server:
        port = re.findall(r":(\d+),", server.line)[0]
        with pytest.raises(
            AssertionError, match=f"cannot listen on port {port}: Address already in use; --port=0 takes"
        ):
            async with served(second, "--port", port):
                await asyncio.sleep(0)
        assert {path.name for path in tmp_path.iterdir()} == {"first"}
