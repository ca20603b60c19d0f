"""The verbs of a client for the containers of a pod: logs, exec, run, port_forward, forwarded_port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from konverge.client.core import ClientCore
from konverge.client.pod_exec import CommandResult, PodProcess, communicate, exec_request
from konverge.client.pod_logs import log_lines, log_request
from konverge.client.port_forward import PortConnection, listening, port_request

__all__ = ["PodVerbs"]


class PodVerbs(ClientCore):
    """The subresources of a pod that the kubelet serves."""

    def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        since_seconds: int | None = None,
        tail_lines: int | None = None,
    ) -> AsyncIterator[str]:
        """Yield the lines of a container's log; with `follow` until the container ends.

        A pod with several containers needs `container`; `previous` is the container before its last restart. The right is `get` of
        `pods/log`. Raises NotFound, and BadRequest for a container that has not started.
        """
        request = log_request(
            name,
            namespace,
            container=container,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
            since_seconds=since_seconds,
            tail_lines=tail_lines,
        )
        return log_lines(self._sender, request, follow=follow, limit=self.settings.max_line_bytes)

    @asynccontextmanager
    async def exec(
        self, name: str, namespace: str, command: Sequence[str], *, container: str = "", stdin: bool = False
    ) -> AsyncIterator[PodProcess]:
        """Start a command in a container; iterate over the process for its output, or `wait` for its exit code.

        With `stdin` the process has `write` and `close_stdin`; this needs Kubernetes 1.30. A pod with several containers needs
        `container`. Leaving the block closes the connection, and the command may run on. The rights are `create` and `get` of `pods/exec`.

        Raises NotFound, BadRequest for an unknown container or a pod without a node, NotLeading behind a fence, and UsageError for a
        command other than a list of words.
        """
        request = exec_request(name, namespace, command, container=container, stdin=stdin)
        self._announce(request)
        async with self._sender.websocket(request) as websocket:
            yield PodProcess(websocket, request.what)

    async def run(
        self,
        name: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        timeout: float = 60.0,
        limit: int = 1 << 20,
    ) -> CommandResult:
        """Run a command in a container and return its exit code, stdout and stderr; also for an exit code other than 0.

        Raises TimeoutError after `timeout` seconds, UsageError above `limit` bytes of output, and the errors of `exec` and
        `PodProcess.wait`. After an error the command may run on. The rights are `create` and `get` of `pods/exec`.
        """
        what = f"exec in pod {namespace}/{name}"
        timer = asyncio.timeout(timeout)
        try:
            async with (
                timer,
                self.exec(name, namespace, command, container=container, stdin=stdin is not None) as process,
            ):
                return await communicate(process, what, stdin=stdin, limit=limit)
        except TimeoutError:
            if not timer.expired():
                raise
            raise TimeoutError(f"{what}: {command[0]!r} has not ended after {timeout:g} s") from None

    @asynccontextmanager
    async def port_forward(self, name: str, namespace: str, port: int) -> AsyncIterator[PortConnection]:
        """Connect to a port of a pod; the connection has `read` and `write`, and leaving the block closes it.

        A port on which nothing listens raises Unreachable at the first `read`. The rights are `create` and `get` of `pods/portforward`.
        """
        request = port_request(name, namespace, port)
        self._announce(request)
        async with self._sender.websocket(request) as websocket:
            yield PortConnection(websocket, request.what)

    def forwarded_port(
        self, name: str, namespace: str, port: int, *, local_port: int = 0
    ) -> AbstractAsyncContextManager[int]:
        """Listen on a port of 127.0.0.1 (0: a free port), which is the value of the block; each connection is a `port_forward` of its own.

        For libraries that need an address. A connection ends as soon as either side closes it; its errors are logged.
        """
        what = port_request(name, namespace, port).what
        return listening(lambda: self.port_forward(name, namespace, port), what, local_port)
