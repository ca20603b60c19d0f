"""Commands in a container: their output, their standard input, and their exit code.

    async with client.exec("shop-0", "web", ["tar", "-cf", "-", "/data"]) as process:
        async for output in process:
            archive.write(output.data)

Guarantees: output arrives as the kubelet sends it, and nothing is read ahead, so that a slow reader slows the command down. The exit code
is known only after the last output. A connection that ends before the exit code raises Unreachable with `maybe_done`.

Caveats: Kubernetes has no way to end a command. A command whose caller leaves early, is cancelled or times out may run on in the container.

The protocol (the first byte of a message is its channel, a Status ends the command, and v5 adds the end of stdin):
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, Self

import msgspec

from konverge.client import requests
from konverge.client.requests import Request
from konverge.client.resources import PODS
from konverge.client.status import exit_code
from konverge.client.transport import WebSocket
from konverge.errors import Unreachable, UsageError
from konverge.tasks import cancel_and_wait

__all__ = ["CommandResult", "Output", "PodProcess", "communicate", "exec_request"]

_V5: Final = "v5.channel.k8s.io"
_V4: Final = "v4.channel.k8s.io"
_STDIN: Final = b"\x00"
_STATUS: Final = 3
_END_OF_STDIN: Final = b"\xff\x00"
_CHUNK: Final = 32 * 1024
"""Bytes of stdin in a message; kubelets read messages of this size without copying them into larger buffers."""


class Output(msgspec.Struct, frozen=True):
    """A part of the output of a command, without regard to lines."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class CommandResult(msgspec.Struct, frozen=True):
    """The result of a command that ended by itself.

    >>> CommandResult(0, b"ready", b"").text
    'ready'
    """

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output as text; invalid UTF-8 is replaced by U+FFFD."""
        return self.stdout.decode(errors="replace")


_OUTPUTS: Final[dict[int, Literal["stdout", "stderr"]]] = {1: "stdout", 2: "stderr"}


def exec_request(name: str, namespace: str, command: Sequence[str], *, container: str, stdin: bool) -> Request:
    """Return the request that starts a command; raises UsageError for a command other than a list of words."""
    if isinstance(command, str) or not command:
        raise UsageError(
            f"the command of {namespace}/{name} is {command!r}: give its words as a list, for example ['sh', '-c', 'ls | wc']"
        )
    params = [("command", word) for word in command]
    params += [("container", container)] if container else []
    params += [("stdin", "true")] if stdin else []
    return requests.connect(
        PODS,
        namespace,
        name,
        "exec",
        params=[*params, ("stdout", "true"), ("stderr", "true")],
        protocols=(_V5,) if stdin else (_V5, _V4),
    )


class PodProcess:
    """A command that runs in a container; iterate over it for its output. `returncode` is None until the iteration ends."""

    def __init__(self, websocket: WebSocket, what: str) -> None:
        self.returncode: int | None = None
        self._websocket = websocket
        self._what = what
        self._status: bytes | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Output:
        while message := await self._receive():
            channel, data = message[0], message[1:]
            if channel == _STATUS:
                self._status = data
            elif channel in _OUTPUTS and data:
                return Output(_OUTPUTS[channel], data)
        self._finish()
        raise StopAsyncIteration

    async def _receive(self) -> bytes:
        try:
            return await self._websocket.receive()
        except Unreachable:
            if self._status is None:
                raise
            return b""

    def _finish(self) -> None:
        if self._status is None:
            raise Unreachable(f"{self._what}: the connection ended before the command", maybe_done=True)
        self.returncode = exit_code(self._status, self._what)

    async def wait(self) -> int:
        """Discard the rest of the output and return the exit code.

        Raises ApiError if the container runtime could not run the command, and Unreachable if the connection is cut.
        """
        async for _ in self:
            pass
        assert self.returncode is not None
        return self.returncode

    async def write(self, data: bytes) -> None:
        """Send bytes to the standard input; waits while the command reads slowly. Read its output at the same time, or both may wait."""
        for start in range(0, len(data), _CHUNK):
            await self._websocket.send(_STDIN + data[start : start + _CHUNK])

    async def close_stdin(self) -> None:
        """End the standard input."""
        await self._websocket.send(_END_OF_STDIN)


async def communicate(process: PodProcess, what: str, *, stdin: bytes | None, limit: int) -> CommandResult:
    """Send all of stdin, and return the whole output and the exit code; raises UsageError above `limit` bytes of output."""
    feeding = None if stdin is None else asyncio.get_running_loop().create_task(_feed(process, stdin))
    outputs: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        async for output in process:
            outputs[output.stream] += output.data
            if sum(map(len, outputs.values())) > limit:
                raise UsageError(
                    f"{what}: more than {limit} bytes of output; raise limit=, or iterate over client.exec"
                )
    finally:
        if feeding is not None:
            await cancel_and_wait(feeding)
    assert process.returncode is not None
    return CommandResult(process.returncode, bytes(outputs["stdout"]), bytes(outputs["stderr"]))


async def _feed(process: PodProcess, stdin: bytes) -> None:
    try:
        await process.write(stdin)
        await process.close_stdin()
    except Unreachable:
        pass  # a command may end before it has read its input; if the connection was cut, the reader raises the error
