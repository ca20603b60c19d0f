"""Runs the credential plugin of a kubeconfig and reads its ExecCredential.

kubernetes_asyncio's runner is not used: it takes only one of a token and a certificate, it ignores the expiry of a certificate, it does not
pass the cluster to plugins that request it, and it leaves a hanging plugin running.

Guarantees: the plugin and its child processes have ended when `run_plugin` returns or is cancelled. It runs without a terminal, never
interactively. Its standard error is quoted in the error if it fails, and nowhere else.

Source of the rules: client.authentication.k8s.io/v1 (ExecCredential).
https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from konverge.clock import from_rfc3339
from konverge.errors import ConfigError

__all__ = ["ExecCredentials", "parse_exec_credentials", "run_plugin"]

_MAX_QUOTE = 500


@dataclass(frozen=True, slots=True)
class ExecCredentials:
    """The token or certificate that a plugin returned; a part that it did not return is empty."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    end: datetime | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


def parse_exec_credentials(output: bytes, api_version: str) -> ExecCredentials:
    """Read an ExecCredential; raises ConfigError that names the mistake without quoting the output."""
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
        status = credential.status
        end = from_rfc3339(status.expiration_timestamp) if status and status.expiration_timestamp else None
    except (msgspec.DecodeError, ValueError):
        raise ConfigError("exec: the plugin's output is no ExecCredential") from None
    if credential.kind != "ExecCredential" or credential.api_version != api_version:
        raise ConfigError(f"exec: the plugin returned {credential.kind} {credential.api_version}, not {api_version}")
    if status is None or not (status.token or status.client_certificate_data):
        raise ConfigError("exec: the plugin gave neither a token nor a certificate")
    if bool(status.client_certificate_data) is not bool(status.client_key_data):
        raise ConfigError("exec: the plugin gave a certificate without its key, or a key without its certificate")
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    return ExecCredentials(status.token or "", certificate.encode(), key.encode(), end)


def _cluster_info(cluster: Mapping[str, Any], ca: bytes) -> dict[str, Any]:
    info = {
        name: cluster[name]
        for name in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if cluster.get(name)
    }
    if ca:
        info["certificate-authority-data"] = base64.b64encode(ca).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _command(plugin: Mapping[str, Any], folder: Path) -> list[str]:
    for name in ("command", "apiVersion"):
        if not plugin.get(name):
            raise ConfigError(f"exec: the plugin has no {name}")
    if plugin.get("interactiveMode") == "Always":
        raise ConfigError("exec: the plugin is always interactive, and this process has no terminal")
    command = str(plugin["command"])
    if os.sep in command:
        command = str(folder / command)  # as kubectl: a path is relative to its kubeconfig, a bare name is looked up
    return [command, *(str(argument) for argument in plugin.get("args") or ())]


def _environment(plugin: Mapping[str, Any], cluster: Mapping[str, Any], ca: bytes) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster_info(cluster, ca)
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    given = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
    return {**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}


async def run_plugin(plugin: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any], ca: bytes) -> ExecCredentials:
    """Run a plugin and read its output; raises ConfigError. The caller sets the timeout."""
    command = _command(plugin, folder)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=_environment(plugin, cluster, ca),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        hint = f"; {plugin['installHint']}" if plugin.get("installHint") else ""
        raise ConfigError(f"exec: {command[0]}: {error.strerror}{hint}") from error
    try:
        output, complaint = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    if process.returncode:
        words = complaint[-_MAX_QUOTE:].decode("utf-8", "replace").strip()
        raise ConfigError(f"exec: {command[0]} ended with {process.returncode}" + (f": {words}" if words else ""))
    return parse_exec_credentials(output, str(plugin["apiVersion"]))
