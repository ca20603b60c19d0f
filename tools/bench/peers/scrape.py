"""The API server's count of requests by verb and code, read from its metrics. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"APPLY", "PATCH", "POST", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Request:
    """A kind of request as the server counts it: `APPLY` is a server-side apply, `PATCH` any other patch."""

    verb: str
    resource: str
    subresource: str
    code: str


def parse(text: str, resources: frozenset[str]) -> Counter[Request]:
    """The counts of the requests about these resources."""
    counter: Counter[Request] = Counter()
    for request, count in _series(text):
        if request.resource in resources:
            counter[request] += count
    return counter


def _series(text: str) -> Iterator[tuple[Request, int]]:
    for line in text.splitlines():
        if match := _LINE.match(line):
            labels = dict(_LABEL.findall(match["labels"]))
            names = ("verb", "resource", "subresource", "code")
            yield Request(*(labels.get(name, "") for name in names)), int(float(match["value"]))


def ended_watches(text: str) -> int:
    """Watches of our objects that the server ended because they did not keep up with its events."""
    lines = (line for line in text.splitlines() if line.startswith("apiserver_terminated_watchers_total{"))
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if 'resource="items"' in line)


def writes(before: Counter[Request], after: Counter[Request]) -> int:
    """Requests to write between two readings, whatever became of them, Events aside."""
    return sum(
        count - before[request]
        for request, count in after.items()
        if request.verb in _WRITES and request.resource != "events"
    )


def reads(before: Counter[Request], after: Counter[Request]) -> int:
    """Single objects that were read between two readings."""
    return sum(count - before[request] for request, count in after.items() if request.verb == "GET")


def errors(before: Counter[Request], after: Counter[Request], *, code: str = "") -> int:
    """Requests between two readings whose response was 4xx or 5xx (or this code); a read that finds nothing (404) does not count."""
    return sum(
        count - before[request]
        for request, count in after.items()
        if request.code[:1] in {"4", "5"}
        and code in {"", request.code}
        and not (request.verb == "GET" and request.code == "404")
    )
