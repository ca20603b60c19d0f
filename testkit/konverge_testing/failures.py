"""Errors of the test kit.

    KonvergeError
    └── ControlPlaneError           a program of the control plane failed; the words end with the last lines of its log
        ├── BinariesMissing         no etcd and kube-apiserver on this machine; the words say how to get them
        ├── InstallFailed           a download or a build did not succeed
        └── NoResponse              the API server does not listen, or not yet

They are separate from `konverge.errors`, because nothing outside the test kit raises or catches them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from konverge.errors import KonvergeError

__all__ = ["BinariesMissing", "ControlPlaneError", "InstallFailed", "NoResponse", "build_failure"]

_LOG_LINES = 15
_NO_NETWORK = re.compile(
    r"dial tcp|i/o timeout|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|[Cc]ould not resolve|Couldn't resolve|name resolution|"
    r"[Nn]etwork is unreachable|[Cc]onnection refused|error sending request"
)
"""Lines of Go, npm, Cargo and rustup about a registry that cannot be reached."""


def build_failure(command: str, output: Sequence[str]) -> str:
    """Return the reason of a build that failed: the first line about a missing network, otherwise the last lines of the output."""
    for line in output:
        if _NO_NETWORK.search(line):
            return (
                f"{command} failed: no network, or the registry does not respond ({line.strip()}); "
                "run the same command again with a network, or name a mirror to the tool (Go: GOPROXY)"
            )
    return "\n".join((f"{command} failed:", *output[-_LOG_LINES:]))


class ControlPlaneError(KonvergeError):
    """A control plane did not start, did not respond or lost one of its programs."""


class BinariesMissing(ControlPlaneError):
    """No etcd and kube-apiserver were found; the message is one line that names the places and the remedy."""


class InstallFailed(ControlPlaneError):
    """A download or a build did not succeed; finished steps stay and are not repeated."""


class NoResponse(ControlPlaneError):
    """The API server did not respond: it does not listen, or not yet."""
