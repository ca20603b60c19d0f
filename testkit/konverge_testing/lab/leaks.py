"""Values of Secrets in what the process under test shows to people: Events, statuses and log lines.

Guarantees: a value of 8 characters or more of any Secret that was stored during the run is searched for, as text and in base64, in every
Event, in every status that the process wrote, and in every log line. A finding names the Secret and its key, and never the value.

Some values are public, and are not searched for: those under the names of `PLAIN` (a host, a user, a certificate), URLs without
credentials, and texts in plain sight in objects of other clients or in names.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from konverge_testing.apiserver.storage import Event
from konverge_testing.lab.invariants import place_of

__all__ = ["LEAST", "PLAIN", "LeakSearch", "captured_logs"]

LEAST: Final = 8
"""Characters of the shortest value that is searched for: shorter texts occur by chance."""
PLAIN: Final = frozenset(
    {
        *(
            "bucket",
            "ca",
            "cert",
            "certificate",
            "cluster",
            "crt",
            "database",
            "db",
            "dbname",
            "email",
            "endpoint",
            "host",
            "hostname",
        ),
        *("name", "namespace", "port", "region", "scheme", "server", "type", "user", "username"),
    }
)
"""Last words of the keys of a Secret that hold no secret."""
_SECRETS: Final = ("", "secrets")
_EVENTS: Final = frozenset({("events.k8s.io", "events"), ("", "events")})
_WORDS: Final = re.compile(r"[^a-z0-9]+")
_STATUS: Final = b'"status":{'


class LeakSearch:
    """The texts that a run showed, and the Secrets that it stored."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, str, str]] = {}
        """Secret values with the place and the key of their Secret."""
        self._events: list[tuple[str, bytes]] = []
        self._statuses: list[tuple[str, bytes]] = []
        self._others: list[bytes] = []
        self._names: set[str] = set()
        self._lines: list[str] = []

    def committed(self, event: Event, *, by_process: bool) -> None:
        """Record a commit."""
        entry = event.entry
        if event.type == "DELETED":
            return
        self._names.add(entry.name)
        if entry.resource == _SECRETS:
            self._values |= {value: (entry.namespace, entry.name, key) for key, value in _secret_values(entry.object())}
        elif entry.resource in _EVENTS:
            self._events.append((f"an Event {entry.key}", entry.raw))
        elif by_process:
            if _STATUS in entry.raw:
                self._statuses.append((f"the status of {place_of(event)}", entry.raw))
        else:
            self._others.append(entry.raw)

    def logged(self, line: str) -> None:
        """Record a line of the log."""
        self._lines.append(line)

    def findings(self, allowed: Callable[[str, str], bool]) -> list[str]:
        """Return a finding for each value that was shown; `allowed(name, key)` returns whether a Secret's value may be shown."""
        if not self._values:
            return []
        shown = [(place, raw.decode()) for place, raw in self._events]
        shown += [(f"a line of the log, {line[:40]!r}...", line) for line in dict.fromkeys(self._lines)]
        text = "\n".join(line for _, line in shown)
        statuses = "\n".join(raw.decode() for _, raw in self._statuses)
        found = []
        for value, (namespace, name, key) in self._values.items():
            for form in _forms(value):
                place = next((place for place, line in shown if form in line), "") if form in text else ""
                if not place and form in statuses:
                    place = next((place for place, raw in self._statuses if _in_status(form, raw)), "")
                if place and not allowed(name, key) and not self._in_plain_sight(value):
                    place = place.replace(form, "***")
                    found.append(f"the value of {key!r} in Secret {namespace}/{name} is in {place}")
                    break
        return found

    def _in_plain_sight(self, value: str) -> bool:
        form = _escaped(value).encode()
        return any(value in name for name in self._names) or any(form in raw for raw in self._others)


def _secret_values(secret: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, encoded in (secret.get("data") or {}).items():
        try:
            value = base64.b64decode(encoded).decode().strip()
        except (ValueError, binascii.Error):
            continue  # a binary value is in no text
        if len(value) >= LEAST and not _is_plain(key, value):
            yield key, value


def _is_plain(key: str, value: str) -> bool:
    if _WORDS.split(key.lower())[-1] in PLAIN or value.startswith("-----BEGIN CERTIFICATE"):
        return True
    try:
        url = urlsplit(value)
    except ValueError:
        return False
    return bool(url.scheme and url.netloc) and "@" not in url.netloc and not url.query


def _forms(value: str) -> Iterator[str]:
    """Yield the texts that may show a value."""
    yield value
    if _escaped(value) != value:
        yield _escaped(value)
    yield base64.b64encode(value.encode()).decode().rstrip("=")


def _escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _in_status(form: str, raw: bytes) -> bool:
    status = json.loads(raw).get("status")
    return form in json.dumps(status, ensure_ascii=False)


@contextmanager
def captured_logs(take: Callable[[str], None]) -> Iterator[None]:
    """Pass each record of `logging` that reaches the root logger to `take`; nothing else changes."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else ""
            take(f"{record.getMessage()} {error or ''}")

    handler, root = Handler(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
