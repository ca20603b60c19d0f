"""Commands and ports over sockets: on the API server in memory over HTTP, and on kube-apiserver with a kubelet of the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count

import pytest
from kubelet import Kubelet

import konverge as kv
from konverge.client import Client, ClientConfig, pod_exec
from konverge.errors import Unreachable
from konverge_testing import ControlPlane
from konverge_testing.apiserver import AcceptedConnection, MemoryServer, RunningCommand
from konverge_testing.apiserver.pod_sessions import PodCommands, PodPorts
from konverge_testing.apiserver.requests import ADMIN

POD, SERVICE_ACCOUNT = kv.kind("v1", "Pod"), kv.kind("v1", "ServiceAccount")
NUMBERS = count(1)
SPEC = {"containers": [{"name": "app", "image": "x"}], "automountServiceAccountToken": False}


async def sort(command: RunningCommand) -> int:
    text = b""
    while data := await command.read():
        text += data
    for line in sorted(text.splitlines(keepends=True)):
        await command.stdout(line)
    await command.stderr(b" ".join(word.encode() for word in (command.container, *command.args)))
    return 3 if command.args[-1] == "fail" else 0


async def sleep(command: RunningCommand) -> int:
    await command.stdout(b"begun")
    await asyncio.sleep(600)
    return 0


async def echo(connection: AcceptedConnection) -> None:
    while data := await connection.read():
        await connection.write(data.upper())


async def through_a_local_port(port: int, size: int) -> None:
    """Send bytes to a local port, and expect them back in upper case."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"a" * size)
    assert await reader.readexactly(size) == b"A" * size
    writer.close()
    await writer.wait_closed()


@dataclass(frozen=True)
class Place:
    client: Client
    namespace: str
    commands: PodCommands
    ports: PodPorts
    stack: AsyncExitStack
    """Ends the server of the commands."""


@pytest.fixture(params=["memory", pytest.param("control-plane", marks=pytest.mark.control_plane)])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    namespace = f"pod-sessions-{next(NUMBERS)}"
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            server = await stack.enter_async_context(MemoryServer(namespaces=(namespace,), service_accounts="off"))
            inner = await stack.enter_async_context(AsyncExitStack())
            shell = await inner.enter_async_context(server.http(tls=True, user=ADMIN))
            assert shell.authority is not None
            config = ClientConfig.direct(shell.url, ca=shell.authority.certificate)
            client = await stack.enter_async_context(Client(config, name="test"))
            commands, ports, spec = server.commands, server.ports, SPEC
        else:
            plane: ControlPlane = request.getfixturevalue("control_plane")
            client = await stack.enter_async_context(
                Client(await ClientConfig.from_kubeconfig(plane.kubeconfig), name="test")
            )
            await plane.create_namespace(namespace)
            await client.get_or_create(SERVICE_ACCOUNT.new("default", namespace))
            kubelet = Kubelet()
            inner = await stack.enter_async_context(AsyncExitStack())
            await inner.enter_async_context(kubelet.running(client, namespace))
            commands, ports, spec = kubelet.commands, kubelet.ports, {**SPEC, "nodeName": namespace}
        await client.create(POD.new("shop", namespace, spec=spec))
        yield Place(client, namespace, commands, ports, inner)


async def test_commands_and_ports_work_over_sockets(place: Place) -> None:
    client = place.client
    place.commands.serve(place.namespace, "shop", sort)
    place.ports.serve(place.namespace, "shop", 8080, echo)
    text = b"b\n\xff\na a\n" * 20_000
    for last, code in (("x", 0), ("fail", 3)):
        result = await client.run("shop", place.namespace, ["sort", "ü &?", last], stdin=text)
        assert (result.returncode, result.stdout) == (code, b"".join(sorted(text.splitlines(keepends=True))))
        assert result.stderr.decode() == f"app sort ü &? {last}"
    async with client.port_forward("shop", place.namespace, 81) as connection:
        with pytest.raises(Unreachable, match=r"error forwarding port 81 .* connection refused"):
            await connection.read()
    async with client.forwarded_port("shop", place.namespace, 8080) as port:
        await asyncio.gather(*(through_a_local_port(port, size) for size in (1, 1_000_000)))


async def test_a_server_that_ends_cuts_a_command_off(place: Place) -> None:
    place.commands.serve(place.namespace, "shop", sleep)
    async with place.client.exec("shop", place.namespace, ["sleep"]) as process:
        assert (await anext(process)).data == b"begun"
        await place.stack.aclose()
        with pytest.raises(Unreachable) as caught:
            await process.wait()
        assert (caught.value.maybe_done, process.returncode) == (True, None)


async def test_a_cancelled_command_closes_its_connection(place: Place) -> None:
    ended = asyncio.Event()

    async def forever(command: RunningCommand) -> int:
        try:
            await sleep(command)
        finally:
            ended.set()
        return 0

    place.commands.serve(place.namespace, "shop", forever)
    with pytest.raises(TimeoutError):
        await place.client.run("shop", place.namespace, ["sleep"], timeout=2)
    async with asyncio.timeout(20):
        await ended.wait()


async def test_a_command_runs_by_the_older_protocol(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_exec, "_V5", "v4.channel.k8s.io")

    async def fail(command: RunningCommand) -> int:
        await command.stdout(b"out")
        return 7

    place.commands.serve(place.namespace, "shop", fail)
    result = await place.client.run("shop", place.namespace, ["fail"])
    assert (result.returncode, result.stdout, result.stderr) == (7, b"out", b"")
