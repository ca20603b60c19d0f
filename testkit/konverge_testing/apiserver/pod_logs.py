r"""The logs of pods, written by a test in the place of a kubelet.

    server.logs.write("web", "shop-0", "ready\n")        # of the only container, or of container="app"
    server.logs.end("web", "shop-0")                     # a followed log ends

Guarantees: the choice of the container and its refusals are those of kube-apiserver (`pkg/registry/core/pod/strategy.go`, LogLocation);
`tailLines`, `sinceSeconds`, `timestamps`, `limitBytes` and `follow` act as in the kubelet.

Caveats: a container that no test wrote for has an empty log; a previous container has none (400).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.clock import rfc3339_micro
from konverge_testing.apiserver.requests import Query, Response
from konverge_testing.apiserver.statuses import bad_request

__all__ = ["PodLogs"]

_GROUPS: Final = (("containers", ""), ("initContainers", "init "), ("ephemeralContainers", "ephemeral "))


@dataclass(slots=True)
class _Log:
    lines: list[tuple[datetime, str]] = field(default_factory=list)
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class PodLogs:
    """The log of each container: `write` and `end` are the test's, `serve` is the server's."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._logs: dict[tuple[str, str, str], _Log] = {}

    def write(self, namespace: str, pod: str, text: str, *, container: str = "") -> None:
        """Append whole lines to the log of a container; without `container` to the log of a pod with one container."""
        log = self._of(namespace, pod, container)
        log.lines += [(self._now(), line) for line in text.splitlines()]
        log.wake()

    def end(self, namespace: str, pod: str, *, container: str = "") -> None:
        """End the container: followed logs end after their last line."""
        log = self._of(namespace, pod, container)
        log.ended = True
        log.wake()

    def _of(self, namespace: str, pod: str, container: str) -> _Log:
        return self._logs.setdefault((namespace, pod, container), _Log())

    def _join(self, log: _Log, unnamed: tuple[str, str, str]) -> None:
        """Let the log of the only container also be the log without a container's name."""
        other = self._logs.get(unnamed, log)
        if other is not log:
            log.lines = sorted([*log.lines, *other.lines], key=lambda line: line[0])
            log.ended = log.ended or other.ended
        self._logs[unnamed] = log

    def serve(self, pod: Mapping[str, Any], query: Query) -> Response:
        """Return the log that a request names; raises a 400 for an unknown container."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = _container_of(pod, query.get("container") or "")
        if query.flag("previous"):
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        log = self._of(namespace, name, container)
        if len(pod["spec"]["containers"]) == 1:
            self._join(log, (namespace, name, ""))
        lines = _chosen(log.lines, query, self._now())
        show = _with_time if query.flag("timestamps") else _plain
        if not query.flag("follow"):
            limit = query.get("limitBytes")
            return Response(body=b"".join(map(show, lines))[: int(limit) if limit else None], content_type="text/plain")
        return Response(stream=_followed(log, len(lines), show), content_type="text/plain")


async def _followed(log: _Log, last: int, show: Callable[[tuple[datetime, str]], bytes]) -> AsyncIterator[bytes]:
    """Yield the last lines, then each new line until the container ends."""
    shown = len(log.lines) - last
    while True:
        changed = log.changed
        for line in log.lines[shown:]:
            yield show(line)
        shown = len(log.lines)
        if log.ended:
            return
        await changed.wait()


def _plain(line: tuple[datetime, str]) -> bytes:
    return f"{line[1]}\n".encode()


def _with_time(line: tuple[datetime, str]) -> bytes:
    return f"{rfc3339_micro(line[0])} {line[1]}\n".encode()


def _chosen(lines: list[tuple[datetime, str]], query: Query, now: datetime) -> list[tuple[datetime, str]]:
    since, tail = query.get("sinceSeconds"), query.get("tailLines")
    if since:
        lines = [line for line in lines if line[0] > now - timedelta(seconds=int(since))]
    return lines[max(len(lines) - int(tail), 0) :] if tail else lines


def _container_of(pod: Mapping[str, Any], container: str) -> str:
    name = pod["metadata"]["name"]
    names = {group: [each["name"] for each in pod["spec"].get(group) or ()] for group, _ in _GROUPS}
    if container:
        if any(container in group for group in names.values()):
            return container
        raise bad_request(f"container {container} is not valid for pod {name}")
    if len(names["containers"]) == 1:
        return str(names["containers"][0])
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names['containers'])}]"
    for group, title in _GROUPS[1:]:
        if names[group]:
            text += f" or one of the {title}containers: [{' '.join(names[group])}]"
    raise bad_request(text)
