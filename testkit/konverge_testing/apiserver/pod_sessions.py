r"""Commands in containers and connections to ports of pods, served by functions of a test in the place of a kubelet.

    async def backup(command: RunningCommand) -> int:
        await command.stdout(b"3 files\n")
        return 0

    server.commands.serve("web", "shop-0", backup)
    server.ports.serve("web", "shop-0", 8080, echo)      # async def echo(connection: AcceptedConnection) -> None

Guarantees: the choice of the container, the refusals and the rights (`get` and `create`) are those of kube-apiserver
(`pkg/registry/core/pod/strategy.go` and `rest/subresources.go`; the conformance suite compares both). The protocols on the wire are
`v5.channel.k8s.io` and `v4.channel.k8s.io`, so that kubectl can run commands too. An error of a function reaches the client like an
error of the kubelet.

Caveats: a pod needs no node to be served. Requests for pods without a function get 501; so do SPDY and its tunnel, which kubectl uses for
ports. A command ends with its connection.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.objects import Objects
from konverge_testing.apiserver.pod_logs import container_of
from konverge_testing.apiserver.requests import Call, Messages, Query, Response
from konverge_testing.apiserver.statuses import bad_request, not_found, not_implemented

__all__ = [
    "CONNECTING",
    "AcceptedConnection",
    "PodCommands",
    "PodPorts",
    "RunningCommand",
    "check_ports",
    "is_websocket",
]

CONNECTING: Final = frozenset({"exec", "portforward"})
_END: Final = 255


class RunningCommand:
    """A command as its container sees it: `args` are its words. Its standard input is empty unless the client sends one."""

    def __init__(self, messages: Messages, query: Query, container: str) -> None:
        self.args = query.all("command")
        self.container = container
        self._has_stdin = query.flag("stdin")
        self._messages = messages

    async def read(self) -> bytes:
        """Return the next bytes of the standard input; b"" at its end."""
        while self._has_stdin and (message := await self._messages.receive()):
            if message[0] == _END:
                return b""
            if message[0] == 0 and len(message) > 1:
                return message[1:]
        return b""

    async def stdout(self, data: bytes) -> None:
        """Write to the standard output."""
        await self._messages.send(b"\x01" + data)

    async def stderr(self, data: bytes) -> None:
        """Write to the standard error."""
        await self._messages.send(b"\x02" + data)


class AcceptedConnection:
    """A connection as the program sees it that listens on the port."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    async def read(self) -> bytes:
        """Return the next bytes of the client; b"" at the end."""
        while message := await self._messages.receive():
            if message[0] == 0 and len(message) > 1:
                return message[1:]
        return b""

    async def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        await self._messages.send(b"\x00" + data)


CommandFunction: TypeAlias = Callable[[RunningCommand], Awaitable[int]]
PortFunction: TypeAlias = Callable[[AcceptedConnection], Awaitable[None]]


class PodCommands:
    """The functions that run as commands in containers."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str, str], CommandFunction] = {}

    def serve(self, namespace: str, pod: str, function: CommandFunction, *, container: str = "") -> None:
        """Run a function for each command in a container, or in each container of the pod; it returns the exit code."""
        self._functions[namespace, pod, container] = function

    def open(self, call: Call, pod: Mapping[str, Any], objects: Objects) -> Response:
        """Return the response to a request for a command."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = container_of(pod, call.query.get("container"))
        place = (namespace, name)
        function = self._functions.get((*place, container)) or self._functions.get((*place, ""))
        run = None if function is None else partial(_run, function, call.query, container)
        advice = f"server.commands.serve({namespace!r}, {name!r}, function)"
        return _opened(call, pod, objects, run, ("v5.channel.k8s.io", "v4.channel.k8s.io"), advice)


class PodPorts:
    """The functions that listen on ports of pods."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str, int], PortFunction] = {}

    def serve(self, namespace: str, pod: str, port: int, function: PortFunction) -> None:
        """Run a function for each connection to a port; a port without a function refuses connections if another port has one."""
        self._functions[namespace, pod, port] = function

    def open(self, call: Call, pod: Mapping[str, Any], objects: Objects) -> Response:
        """Return the response to a request for a connection."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        port = int(call.query.get("ports") or 0)
        served = any(place[:2] == (namespace, name) for place in self._functions)
        carry = partial(_carry, self._functions.get((namespace, name, port)), port) if served else None
        advice = f"server.ports.serve({namespace!r}, {name!r}, {port}, function)"
        return _opened(call, pod, objects, carry, ("v4.channel.k8s.io",), advice)


def check_ports(call: Call) -> None:
    """Raise a 400 for a malformed port; kube-apiserver checks it before it reads the pod."""
    text = call.query.get("ports")
    if text and not text.isdigit():
        raise bad_request(f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": invalid syntax')


def is_websocket(call: Call) -> bool:
    """Return whether a call opens a websocket."""
    return call.headers.get("upgrade", "").lower() == "websocket"


def _opened(
    call: Call,
    pod: Mapping[str, Any],
    objects: Objects,
    session: Callable[[Messages], Awaitable[None]] | None,
    protocols: tuple[str, ...],
    advice: str,
) -> Response:
    """Return the response 101 with a session; raises the refusals of kube-apiserver in its order."""
    node = pod["spec"].get("nodeName")
    if session is None and not node:
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    if session is None and objects.get(("", "nodes"), "", node) is None:
        raise not_found("", "pods", node)  # in these words: upstream names the node as a pod
    if "upgrade" not in call.headers:
        raise bad_request("Upgrade request required")
    if session is None:
        raise not_implemented(f"a kubelet: declare what the pod does with {advice}")
    offers = [offer.strip() for offer in call.headers.get("sec-websocket-protocol", "").split(",")]
    chosen = [protocol for protocol in protocols if protocol in offers]
    if not is_websocket(call) or not chosen:
        raise not_implemented(f"the protocol {call.headers['upgrade']} {', '.join(offers)}".rstrip())
    return Response(status=101, session=session, protocol=chosen[0])


async def _run(function: CommandFunction, query: Query, container: str, messages: Messages) -> None:
    command = RunningCommand(messages, query, container)
    try:
        code = await function(command)
    except Exception as error:  # noqa: BLE001 - the client gets it, as the error of a container runtime
        status = {
            "status": "Failure",
            "reason": "InternalError",
            "code": 500,
            "message": f"Internal error occurred: error executing command in container: {type(error).__name__}: {error}",
        }
    else:
        status = {"status": "Success"} if code == 0 else _failure(code)
    await messages.send(b"\x03" + json.dumps({"metadata": {}, **status}).encode())


def _failure(code: int) -> dict[str, Any]:
    return {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _carry(function: PortFunction | None, port: int, messages: Messages) -> None:
    for channel in (b"\x00", b"\x01"):
        await messages.send(channel + port.to_bytes(2, "little"))
    try:
        if function is None:
            raise ConnectionRefusedError(f"connect tcp4 127.0.0.1:{port}: connect: connection refused")
        await function(AcceptedConnection(messages))
    except Exception as error:  # noqa: BLE001 - the client gets it, as the error of a container runtime
        await messages.send(b"\x01" + f"error forwarding port {port} to pod: {error}".encode())
