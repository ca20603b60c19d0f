"""Commands in containers and connections to ports: the client against the API server in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from spans import Spans

import konverge as kv
from konverge.client import Client, missing_rule
from konverge.client.pod_exec import PodProcess
from konverge.client.requests import Request
from konverge.errors import ApiError, BadRequest, NotLeading, ServerFailure, Unreachable, UsageError
from konverge.recording.transport import recorded_transport
from konverge_testing import Lab
from konverge_testing.apiserver import AcceptedConnection, MemoryServer, RunningCommand
from konverge_testing.apiserver.faults.rules import Drop, Fault, Match, Refuse, Rule
from konverge_testing.apiserver.requests import User
from konverge_testing.in_process import in_process

POD = kv.kind("v1", "Pod")


async def pod(lab: Lab, name: str = "shop", containers: Sequence[str] = ("app",), node: str = "") -> MemoryServer:
    spec = {"containers": [{"name": container, "image": "x"} for container in containers]}
    await lab.create(POD.new(name, spec={**spec, **({"nodeName": node} if node else {})}))
    assert lab.server is not None
    return lab.server


async def sort(command: RunningCommand) -> int:
    """Sort the lines of the standard input."""
    text = b""
    while data := await command.read():
        text += data
    await command.stdout(b"".join(sorted(text.splitlines(keepends=True))))
    await command.stderr(b" ".join(word.encode() for word in (command.container, *command.args)))
    return 3 if command.args[-1] == "fail" else 0


async def echo(connection: AcceptedConnection) -> None:
    while data := await connection.read():
        await connection.write(data.upper())


@pytest.mark.parametrize(("last", "code"), [("ok", 0), ("fail", 3)])
async def test_a_command_returns_its_code_and_both_outputs(lab: Lab, last: str, code: int) -> None:
    server = await pod(lab)
    server.commands.serve(lab.namespace, "shop", sort)
    text = b"b\n\xff\na\n" * 20_000
    result = await lab.client.run("shop", lab.namespace, ["sort", last], stdin=text)
    assert result.returncode == code
    assert result.stdout == b"".join(sorted(text.splitlines(keepends=True)))
    assert result.stderr == f"app sort {last}".encode()
    assert (await lab.client.run("shop", lab.namespace, ["sort", last])).stdout == b""


async def test_a_process_is_read_and_written_at_the_same_time(lab: Lab) -> None:
    async def upper(command: RunningCommand) -> int:
        while data := await command.read():
            await command.stdout(data.upper())
        return 0

    (await pod(lab)).commands.serve(lab.namespace, "shop", upper)
    async with lab.client.exec("shop", lab.namespace, ["upper"], stdin=True) as process:
        for word in (b"a", b"b"):
            await process.write(word)
            output = await anext(process)
            assert (output.stream, output.data, process.returncode) == ("stdout", word.upper(), None)
        await process.close_stdin()
        assert await process.wait() == 0
        assert [output async for output in process] == []


async def test_each_container_runs_its_own_function(lab: Lab) -> None:
    server = await pod(lab, containers=("app", "side"))
    server.commands.serve(lab.namespace, "shop", sort, container="side")
    result = await lab.client.run("shop", lab.namespace, ["sort"], container="side", stdin=b"")
    assert result.stderr == b"side sort"
    with pytest.raises(BadRequest, match=r"choose one of: \[app side\]"):
        await lab.client.run("shop", lab.namespace, ["sort"])
    with pytest.raises(BadRequest, match="container no is not valid for pod shop"):
        await lab.client.run("shop", lab.namespace, ["sort"], container="no")


async def test_a_command_that_could_not_run_raises_the_error_of_the_runtime(lab: Lab) -> None:
    async def missing(_: RunningCommand) -> int:
        raise FileNotFoundError("no such file")

    (await pod(lab)).commands.serve(lab.namespace, "shop", missing)
    with pytest.raises(ServerFailure, match="error executing command in container: FileNotFoundError: no such file"):
        await lab.client.run("shop", lab.namespace, ["sort"])


async def test_a_command_beyond_its_limits_raises_and_ends(lab: Lab) -> None:
    ended: list[str] = []

    async def talk(command: RunningCommand) -> int:
        try:
            while True:
                await command.stdout(b"x" * 1000)
                await asyncio.sleep(1)
        finally:
            ended.append(command.args[0])

    (await pod(lab)).commands.serve(lab.namespace, "shop", talk)
    with pytest.raises(UsageError, match="more than 5000 bytes of output; raise limit="):
        await lab.client.run("shop", lab.namespace, ["a"], limit=5000)
    with pytest.raises(TimeoutError, match="'b' has not ended after 3 s"):
        await lab.client.run("shop", lab.namespace, ["b"], timeout=3)
    running = asyncio.create_task(lab.client.run("shop", lab.namespace, ["c"]))
    await asyncio.sleep(3)
    running.cancel()
    await asyncio.wait({running})
    assert ended == ["a", "b", "c"]


class Script:
    """A websocket with these messages, which then closes ("end") or breaks."""

    status, protocol = 101, "v5.channel.k8s.io"

    def __init__(self, *messages: bytes | str) -> None:
        self._messages = list(messages)

    async def receive(self) -> bytes:
        message = self._messages.pop(0) if self._messages else "cut"
        if message == "cut":
            raise Unreachable("cut")
        return b"" if isinstance(message, str) else message

    async def send(self, message: bytes) -> None:
        raise AssertionError("nothing is sent")


DONE = b'\x03{"metadata":{},"status":"Success"}'


@pytest.mark.parametrize(
    ("messages", "output", "end"),
    [
        ((b"\x01a", DONE, b"\x02b", "end"), b"ab", 0),
        ((b"\x01", b"\x02", b"\x04x", b"\x01a", DONE, "cut"), b"a", 0),
        ((b"\x01a", "end"), b"a", Unreachable),
        ((b"\x01a", "cut"), b"a", Unreachable),
        ((b"\x03no JSON", "end"), b"", ApiError),
        ((b'\x03{"status":"Failure","reason":"InternalError","code":500,"message":"m"}', "end"), b"", ServerFailure),
        (
            (b'\x03{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}', "end"),
            b"",
            ApiError,
        ),
    ],
    ids=["late output", "cut after the code", "no code", "cut", "no JSON", "an error", "a malformed code"],
)
async def test_a_process_ends_with_its_code_after_the_last_output(
    messages: Sequence[bytes | str], output: bytes, end: int | type[Exception]
) -> None:
    process, read = PodProcess(Script(*messages), "exec"), b""
    ended: int | type[Exception] | None
    try:
        async for part in process:
            read += part.data
        ended = process.returncode
    except kv.KonvergeError as error:
        ended = type(error)
    assert (read, ended) == (output, end)


@pytest.mark.parametrize("command", ["ls", [], ()])
async def test_a_command_other_than_a_list_is_refused(lab: Lab, command: Sequence[str]) -> None:
    with pytest.raises(UsageError, match="give its words as a list"):
        await lab.client.run("shop", lab.namespace, command)


async def test_a_port_carries_bytes_in_both_directions(lab: Lab) -> None:
    server = await pod(lab)
    server.ports.serve(lab.namespace, "shop", 8080, echo)
    async with lab.client.port_forward("shop", lab.namespace, 8080) as connection:
        for size in (1, 100_000):
            await connection.write(b"a" * size)
            received = b""
            while len(received) < size:
                received += await connection.read()
            assert received == b"A" * size
    async with lab.client.port_forward("shop", lab.namespace, 81) as connection:
        with pytest.raises(Unreachable, match=r"error forwarding port 81 .* connection refused"):
            await connection.read()
    with pytest.raises(UsageError, match="a port is between 1 and 65535"):
        async with lab.client.port_forward("shop", lab.namespace, 0):
            pass


async def test_a_closed_connection_to_a_port_ends_the_reads(lab: Lab) -> None:
    async def greet(connection: AcceptedConnection) -> None:
        await connection.write(b"hello")

    (await pod(lab)).ports.serve(lab.namespace, "shop", 25, greet)
    async with lab.client.port_forward("shop", lab.namespace, 25) as connection:
        assert [await connection.read(), await connection.read(), await connection.read()] == [b"hello", b"", b""]


Call = Callable[[Client, str, str], Awaitable[object]]


async def run(client: Client, name: str, namespace: str) -> object:
    return await client.run(name, namespace, ["ls"])


async def connect(client: Client, name: str, namespace: str) -> object:
    async with client.port_forward(name, namespace, 80) as connection:
        return await connection.read()


CALLS = pytest.mark.parametrize("call", [run, connect])


@CALLS
@pytest.mark.parametrize(
    ("node", "error", "text"),
    [
        ("", BadRequest, "pod shop does not have a host assigned"),
        ("absent", kv.NotFound, 'pods "absent" not found'),
        ("n", ServerFailure, r"a kubelet: declare what the pod does with server\.\w+\.serve\("),
    ],
    ids=["no node", "absent node", "no function"],
)
async def test_a_pod_that_no_function_serves_is_refused(
    lab: Lab, call: Call, node: str, error: type[Exception], text: str
) -> None:
    await lab.create(kv.kind("v1", "Node").new("n"))
    await pod(lab, node=node)
    with pytest.raises(error, match=text):
        await call(lab.client, "shop", lab.namespace)
    with pytest.raises(kv.NotFound, match='pods "gone" not found'):
        await call(lab.client, "gone", lab.namespace)


@CALLS
@pytest.mark.parametrize("verbs", [(), ("get",), ("create",), ("create", "get")], ids=str)
async def test_a_session_needs_both_rights_and_the_error_names_them(
    lab: Lab, call: Call, verbs: tuple[str, ...]
) -> None:
    server = await pod(lab)
    resource = "pods/exec" if call is run else "pods/portforward"
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}]
    server.rbac.grant("u", [{"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}])
    async with Client(in_process(server.handle, user=User("u")), name="test") as client:
        with pytest.raises(BadRequest if len(verbs) == 2 else kv.Forbidden) as caught:
            await call(client, "shop", lab.namespace)
    needed = {"apiGroups": [""], "resources": [resource], "verbs": ["create", "get"]}
    assert missing_rule(caught.value) == (None if len(verbs) == 2 else needed)


@CALLS
async def test_a_writer_and_a_fence_see_a_session_before_it_begins(lab: Lab, call: Call) -> None:
    class Closed:
        def check(self) -> None:
            raise NotLeading("the lease expired")

    await pod(lab, node="absent")
    announced: list[str] = []
    with pytest.raises(kv.NotFound):
        await call(lab.client.written_by("w", announced.append), "shop", lab.namespace)
    subresource = "exec" if call is run else "portforward"
    assert announced == [f"connect pods/{subresource} {lab.namespace}/shop"]
    with pytest.raises(NotLeading):
        await call(lab.client.fenced_by(Closed()), "shop", lab.namespace)


@CALLS
async def test_a_plan_starts_no_session(lab: Lab, call: Call) -> None:
    from konverge.planning.transport import PlannedCluster, PlanningTransport

    (await pod(lab)).commands.serve(lab.namespace, "shop", sort)
    config = kv.ClientConfig.over(
        lambda _, settings, agent: PlanningTransport(lab.config.open(settings, agent), PlannedCluster())
    )
    async with Client(config, name="plan") as client:
        with pytest.raises(kv.Forbidden, match=r"a plan sends no GET .*: the API server has no dry run of it"):
            await call(client, "shop", lab.namespace)


async def test_a_transport_without_websockets_names_the_missing_method(lab: Lab) -> None:
    class Plain:
        async def prepare(self) -> None:
            pass

    def over(*_: object) -> Plain:
        return Plain()

    client = Client(kv.ClientConfig.over(over), name="test")  # type: ignore[arg-type]  # it lacks the other methods, too
    with pytest.raises(UsageError, match="Plain opens no websockets; give it the method `websocket`"):
        await client.run("shop", "web", ["ls"])


def test_a_request_with_protocols_writes() -> None:
    assert Request(method="GET", path="/", protocols=("v4.channel.k8s.io",)).writes


async def test_a_recording_passes_a_command_on_with_its_span(lab: Lab) -> None:
    def note(request: Request) -> Any:
        raise AssertionError(request)

    spans = Spans()
    (await pod(lab)).commands.serve(lab.namespace, "shop", sort)
    config = lab.config.through(lambda inner: recorded_transport(inner, note))
    async with Client(config, name="test", tracing=spans.provider) as client:
        result = await client.run("shop", lab.namespace, ["hunter2"], stdin=b"a")
    assert result.stdout == b"a"
    [span] = spans
    assert span.name == "GET /api/v1/namespaces/{namespace}/pods/{name}/exec"
    assert spans.attributes(span)["http.response.status_code"] == 101
    assert "hunter2" not in span.to_json()


@CALLS
@pytest.mark.parametrize(
    ("fault", "error"),
    [(Refuse(status=503), ServerFailure), (Refuse(status=403), kv.Forbidden), (Drop(), Unreachable)],
    ids=["unavailable", "forbidden", "dropped"],
)
async def test_a_fault_of_the_server_reaches_the_caller(
    lab: Lab, call: Call, fault: Fault, error: type[Exception]
) -> None:
    server = await pod(lab)
    server.commands.serve(lab.namespace, "shop", sort)
    server.faults.add(Rule(Match(resources=("pods",), verbs=("get",)), fault))
    with pytest.raises(error):
        await call(lab.client, "shop", lab.namespace)


async def test_a_span_of_a_command_shows_neither_its_words_nor_its_output(lab: Lab) -> None:
    server, spans = await pod(lab), Spans()
    server.commands.serve(lab.namespace, "shop", sort)
    async with Client(in_process(server.handle), name="traced", tracing=spans.provider) as client:
        assert (await client.run("shop", lab.namespace, ["sort", "hunter2"], stdin=b"hunter3")).returncode == 0
    [span] = [span for span in spans if span.name == "GET /api/v1/namespaces/{namespace}/pods/{name}/exec"]
    assert (span.attributes or {})["http.response.status_code"] == 101
    assert "hunter" not in span.to_json()
