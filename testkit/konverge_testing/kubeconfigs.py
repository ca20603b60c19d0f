"""Credentials for the HTTP shell of the API server: a kubeconfig for programs, a `ClientConfig` for konverge's clients."""

from __future__ import annotations

from pathlib import Path

from konverge.client.config import ClientConfig
from konverge_testing import arguments, files
from konverge_testing.apiserver.certificates import KeyPair
from konverge_testing.apiserver.http import HttpShell
from konverge_testing.apiserver.requests import ADMIN, User

__all__ = ["client_config", "write_kubeconfig"]

_EVERYBODY = "system:authenticated"


def _pair(shell: HttpShell, user: User) -> KeyPair | None:
    """Issue a client certificate if the shell serves TLS."""
    if shell.authority is None:
        return None
    return shell.authority.client(user.name, groups=[group for group in user.groups if group != _EVERYBODY])


def write_kubeconfig(
    path: Path, shell: HttpShell, *, user: User = ADMIN, token: str = "", namespace: str = "default"
) -> Path:
    """Write a kubeconfig (mode 0600) with a token, or else a client certificate of the user; over plain HTTP with neither."""
    document = arguments.kubeconfig(
        url=shell.url,
        authority=b"" if shell.authority is None else shell.authority.certificate,
        user=user.name,
        credentials=token or _pair(shell, user) or "",
        namespace=namespace,
    )
    if shell.authority is None:
        del document["clusters"][0]["cluster"]["certificate-authority-data"]
    if not token and shell.authority is None:
        document["users"][0]["user"] = {}
    return files.write_kubeconfig(path, document)


def client_config(shell: HttpShell, *, user: User = ADMIN, token: str = "", namespace: str = "") -> ClientConfig:
    """Return a configuration with a token, or else a client certificate of the user; over plain HTTP with neither."""
    pair = None if token else _pair(shell, user)
    return ClientConfig.direct(
        shell.url,
        token=token,
        ca=b"" if shell.authority is None else shell.authority.certificate,
        certificate=b"" if pair is None else pair.certificate,
        key=b"" if pair is None else pair.key,
        namespace=namespace,
    )
