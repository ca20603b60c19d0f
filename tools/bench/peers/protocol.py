"""The protocol between the harness and a contestant.

A contestant is one program. Its environment configures it:

    KUBECONFIG, PEER_MOUNT         the same ServiceAccount, as a kubeconfig and as the folder that a pod has
    KUBERNETES_SERVICE_HOST/_PORT  the API server, for those that read the folder
    PEER_NAMESPACE, PEER_WORKERS   what to watch, and how many reconciles or requests at once
    PEER_MODE                      "status", or "owners" (20 children per object beside it)
    PEER_VARIANT, PEER_EVENTS      which form of a contestant that has several
    PEER_KINDS, PEER_WATCHES       konverge only: how many kinds to watch, and how many watches of the first, each with a selector
    PEER_LOOP                      konverge only: "asyncio" or "uvloop"
    PEER_OWN_WRITES                konverge only: "0" enqueues nothing for the events of its own applies to children
    PEER_STALLS                    "1" measures the stalls of the loop from the start on

It prints one JSON object a line on standard output; other lines are ignored:

    {"peer": "ready", "synced": true, "stalls": true, "versions": {...}, "settings": {...}}     its caches are synced
    {"peer": "stats", "errors": 0, "stall_ms": 3.1, "work_ms": 2.0, "turn_ms": 1.5}              the response to SIGUSR1

`synced` is false if a library has no such moment. If `stalls` is true, SIGUSR2 starts measuring the stalls of the contestant's loop, and
SIGUSR1 ends it. SIGTERM ends the program. Its results are observed from outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from peers.installed import ROOT


@dataclass(frozen=True, slots=True)
class Ready:
    """A contestant's caches are synced."""

    synced: bool
    stalls: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stats:
    """The counters of a contestant."""

    errors: float
    stall_ms: float | None = None
    work_ms: float | None = None
    turn_ms: float | None = None


Message: TypeAlias = Ready | Stats


def parse(line: bytes | str) -> Message | None:
    """Read a line of a contestant; None for a line outside the protocol. Raises ValueError for a malformed line of the protocol."""
    try:
        document = json.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict) or "peer" not in document:
        return None
    match document["peer"]:
        case "ready":
            return Ready(
                bool(document.get("synced", True)),
                bool(document.get("stalls", False)),
                document.get("versions", {}),
                document.get("settings", {}),
            )
        case "stats":
            return Stats(
                float(document.get("errors", 0)),
                document.get("stall_ms"),
                document.get("work_ms"),
                document.get("turn_ms"),
            )
        case other:
            raise ValueError(f"a contestant said {other!r}, which is not of the protocol")


def environment(
    base: Mapping[str, str],
    *,
    kubeconfig: Path,
    mount: Path,
    address: tuple[str, int],
    namespace: str,
    workers: int,
    owners: bool,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """The environment of a contestant: of the harness' own variables only those that every program needs, and the tree for Python."""
    kept = {name: base[name] for name in ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE") if name in base}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "KUBECONFIG": str(kubeconfig),
        "PEER_MOUNT": str(mount),
        "KUBERNETES_SERVICE_HOST": address[0],
        "KUBERNETES_SERVICE_PORT": str(address[1]),
        "PEER_NAMESPACE": namespace,
        "PEER_WORKERS": str(workers),
        "PEER_MODE": "owners" if owners else "status",
        **extra,
    }
