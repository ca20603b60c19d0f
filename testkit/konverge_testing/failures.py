"""Errors of the test kit.

    KonvergeError
    └── ControlPlaneError           a program of the control plane failed; the words end with the last lines of its log
        ├── BinariesMissing         no etcd and kube-apiserver on this machine; the words say how to get them
        ├── InstallFailed           a download or a build did not succeed
        └── NoResponse              the API server does not listen, or not yet

They are separate from `konverge.errors`, because nothing outside the test kit raises or catches them.
"""

from __future__ import annotations

from konverge.errors import KonvergeError

__all__ = ["BinariesMissing", "ControlPlaneError", "InstallFailed", "NoResponse"]


class ControlPlaneError(KonvergeError):
    """A control plane did not start, did not respond or lost one of its programs."""


class BinariesMissing(ControlPlaneError):
    """No etcd and kube-apiserver were found; the message is one line that names the places and the remedy."""


class InstallFailed(ControlPlaneError):
    """A download or a build did not succeed; finished steps stay and are not repeated."""


class NoResponse(ControlPlaneError):
    """The API server did not respond: it does not listen, or not yet."""
