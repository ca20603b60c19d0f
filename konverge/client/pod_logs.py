"""The log of a container, line by line.

Guarantees: the lines arrive as the kubelet sends them, without the line end, and invalid UTF-8 is replaced by U+FFFD. Without `follow` the
iteration ends with the log, with `follow` it ends with the container.

The parameters: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from konverge.client.requests import Request, object_path
from konverge.client.resources import PODS
from konverge.client.responses import LineSplitter
from konverge.client.sender import Sender
from konverge.errors import Unreachable

__all__ = ["log_lines", "log_request"]

_TEXT: Final = "application/json, */*"
"""kubectl sends the same: a log is plain text, and a failure is a Status."""


def log_request(
    name: str,
    namespace: str,
    *,
    container: str,
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: int | None,
    tail_lines: int | None,
) -> Request:
    """Return the request of a log."""
    chosen = {
        "container": container,
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "sinceSeconds": "" if since_seconds is None else str(since_seconds),
        "tailLines": "" if tail_lines is None else str(tail_lines),
    }
    return Request(
        method="GET",
        path=object_path(PODS, namespace, name, "log"),
        params=tuple((key, value) for key, value in chosen.items() if value),
        accept=_TEXT,
        repeatable=True,
        what=f"log of pod {namespace}/{name}",
    )


async def log_lines(sender: Sender, request: Request, *, follow: bool, limit: int) -> AsyncIterator[str]:
    """Yield the lines of a log; raises Unreachable if the connection is cut or a line is longer than `limit` bytes."""
    # The kubelet sends the head of a followed log with the first line, which may be hours away.
    async with sender.open(request, waits=follow) as stream:
        splitter = LineSplitter(limit)
        while chunk := await stream.read():
            try:
                lines = splitter.feed(chunk)
            except ValueError as error:
                raise Unreachable(f"{request.what}: {error}") from error
            for line in lines.split(b"\n")[:-1]:
                yield _text_of(line)
        if splitter.rest:
            yield _text_of(splitter.rest)


def _text_of(line: bytes) -> str:
    """Decode a line; a progress bar rewrites its line with carriage returns, which stay."""
    return line.removesuffix(b"\r").decode(errors="replace")
