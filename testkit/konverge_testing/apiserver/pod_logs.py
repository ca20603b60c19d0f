r"""The logs of pods, written by a test in the place of a kubelet.

    server.logs.write("web", "shop-0", "ready\n")        # of the only container, or of container="app"
    server.logs.end("web", "shop-0")                     # a followed log ends

Guarantees: the choice of the container and all refusals are those of kube-apiserver (`pkg/registry/core/pod/strategy.go`, LogLocation; the
conformance suite compares both). `tailLines`, `sinceSeconds`, `timestamps`, `limitBytes` and `follow` act as in the kubelet. A pod without
a node and without a written log has no content (204).

Caveats: a pod needs no node to have a log, so that a test need not schedule it. A previous container has no log (400).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.clock import rfc3339_micro
from konverge_testing.apiserver.requests import Query, Response
from konverge_testing.apiserver.statuses import FieldError, bad_request, invalid

__all__ = ["PodLogs", "container_of", "log_options"]

_INT64: Final = 2**63
_DIGITS: Final = 19
_LONG_AGO: Final = 3_000_000_000
"""Seconds, about 95 years: no line is older, and a date cannot go back much further."""
_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")
_LEAST: Final[Mapping[str, int]] = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
"""The parameters that are numbers, each with the least value, in the order in which kube-apiserver lists their errors."""


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
        log.lines += [(self._now(), line) for line in text.removesuffix("\n").split("\n")]
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

    def serve(self, pod: Mapping[str, Any], query: Query, options: Mapping[str, int]) -> Response:
        """Return the log that a request names; raises a 400 for an unknown container."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        container = container_of(pod, query.get("container"))
        log = self._of(namespace, name, container)
        if len(pod["spec"]["containers"]) == 1:
            self._join(log, (namespace, name, ""))
        if not pod["spec"].get("nodeName") and not log.lines:
            return Response(status=204, content_type="")
        if query.flag("previous"):
            raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        lines = _chosen(log.lines, options, self._now())
        show = _with_time if query.flag("timestamps") else _plain
        if not query.flag("follow"):
            body = b"".join(map(show, lines))[: options.get("limitBytes")]
            return Response(body=body, content_type="text/plain")
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


def _chosen(lines: list[tuple[datetime, str]], options: Mapping[str, int], now: datetime) -> list[tuple[datetime, str]]:
    since, tail = options.get("sinceSeconds", _LONG_AGO), options.get("tailLines")
    if since < _LONG_AGO:
        lines = [line for line in lines if line[0] > now - timedelta(seconds=since)]
    return lines if tail is None else lines[max(len(lines) - tail, 0) :]


def log_options(query: Query, pod: str) -> dict[str, int]:
    """Return the numbers of a request by their names; raises a 400 for a malformed number and a 422 for a number below its least value.

    kube-apiserver checks them before it reads the pod.
    """
    numbers = {name: _number(text) for name in _LEAST if (text := query.get(name))}
    wrong = [
        FieldError(
            "Invalid", name, number, "must be greater than 0" if _LEAST[name] else "must be greater than or equal to 0"
        )
        for name, number in numbers.items()
        if number < _LEAST[name]
    ]
    if wrong:
        raise invalid("", "PodLogOptions", pod, wrong)
    return numbers


def _number(text: str) -> int:
    """Return a number as Go's ParseInt reads it."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits.lstrip("0")) > _DIGITS or not -_INT64 <= (number := int(text)) < _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def container_of(pod: Mapping[str, Any], container: str) -> str:
    """Return the container that a request names, or the only container of the pod; raises a 400 for any other choice."""
    name = pod["metadata"]["name"]
    names = [str(each["name"]) for group in _GROUPS for each in pod["spec"].get(group) or ()]
    if container:
        if container in names:
            return container
        raise bad_request(f"container {container} is not valid for pod {name}")
    if len(pod["spec"]["containers"]) == 1:
        return str(pod["spec"]["containers"][0]["name"])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
