"""The command lines and files of a control plane, as pure functions of its configuration.

Guarantees: nothing here touches a disk, a port or a process. A flag of the user replaces our own flag of the same name; other flags are
appended.

Sources of the rules: the flag references of etcd 3.6 and of kube-apiserver and kube-controller-manager 1.36, and shared
facts on their behaviour on loopback.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from konverge_testing.apiserver.certificates import KeyPair
from konverge_testing.config import ControlPlaneConfig

__all__ = [
    "ADMIN_GROUP",
    "HOST",
    "SERVING_NAMES",
    "Layout",
    "apiserver_arguments",
    "audit_policy",
    "controller_manager_arguments",
    "etcd_arguments",
    "kubeconfig",
]

HOST = "127.0.0.1"
_AUDIT_MEGABYTES = 16 * 1024
"""The size at which the API server rotates the audit log. With its default of 100 the file holds about the last hour of requests."""
ADMIN_GROUP = "system:masters"
_SERVICE_RANGE = "10.0.0.0/24"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
SERVING_NAMES = (HOST, "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""The names in the serving certificate: the address itself, and the names that programs in a cluster use."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths and ports of one plane."""

    directory: Path
    etcd_port: int
    apiserver_port: int

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.apiserver_port}"

    @property
    def etcd_url(self) -> str:
        """The address of etcd; TLS with client certificates, so that no other user of the machine gets past RBAC."""
        return f"https://{HOST}:{self.etcd_port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that lead a program in a pod to the API server."""
        return {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self.apiserver_port)}

    def pki(self, name: str) -> Path:
        """A certificate or key: `ca.crt`, `serving.crt`, `serving.key`, `etcd-ca.crt`, ..."""
        return self.directory / "pki" / name

    def log(self, program: str) -> Path:
        """The log of one program."""
        return self.directory / "logs" / f"{program}.log"

    @property
    def audit_file(self) -> Path:
        """Where the API server writes one line per request, if `audit` is set."""
        return self.directory / "logs" / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        """The audit policy."""
        return self.directory / "audit-policy.json"

    def kubeconfig(self, name: str) -> Path:
        """A kubeconfig by the name of its file."""
        return self.directory / "kubeconfigs" / f"{name}.kubeconfig"


def etcd_arguments(layout: Layout) -> list[str]:
    """Return the arguments of etcd: one member, durability off, since the data does not outlive the plane."""
    return _flags(
        {
            "name": "default",
            "data-dir": str(layout.directory / "etcd"),
            "listen-client-urls": layout.etcd_url,
            "advertise-client-urls": layout.etcd_url,
            # There is never a second member; port 0 takes any free port.
            "listen-peer-urls": f"http://{HOST}:0",
            "cert-file": str(layout.pki("etcd.crt")),
            "key-file": str(layout.pki("etcd.key")),
            "trusted-ca-file": str(layout.pki("etcd-ca.crt")),
            "client-cert-auth": "true",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
    )


def apiserver_arguments(config: ControlPlaneConfig, layout: Layout) -> list[str]:
    """Return the arguments of kube-apiserver: TLS, client certificates and ServiceAccount tokens, RBAC."""
    ours = {
        "bind-address": HOST,
        "secure-port": str(layout.apiserver_port),
        # A loopback address cannot be an endpoint of the Service kubernetes, so the reconciler that would publish it is off.
        "advertise-address": HOST,
        "endpoint-reconciler-type": "none",
        "etcd-servers": layout.etcd_url,
        "etcd-cafile": str(layout.pki("etcd-ca.crt")),
        "etcd-certfile": str(layout.pki("etcd-client.crt")),
        "etcd-keyfile": str(layout.pki("etcd-client.key")),
        "cert-dir": str(layout.directory / "pki"),
        "tls-cert-file": str(layout.pki("serving.crt")),
        "tls-private-key-file": str(layout.pki("serving.key")),
        "client-ca-file": str(layout.pki("ca.crt")),
        "service-account-key-file": str(layout.pki("service-account.key")),
        "service-account-signing-key-file": str(layout.pki("service-account.key")),
        "service-account-issuer": _ISSUER,
        "service-cluster-ip-range": _SERVICE_RANGE,
        "authorization-mode": "RBAC",
        "allow-privileged": "true",
        "profiling": "false",
        **_tuning(config),
    }
    if not config.controllers:
        ours["disable-admission-plugins"] = "ServiceAccount"
    if config.audit:
        ours |= {"audit-policy-file": str(layout.audit_policy), "audit-log-path": str(layout.audit_file)}
        ours["audit-log-maxsize"] = str(_AUDIT_MEGABYTES)
    return _flags(ours | dict(config.apiserver_flags))


def _tuning(config: ControlPlaneConfig) -> dict[str, str]:
    flags: dict[str, str] = {}
    if not config.watch_cache:
        flags["watch-cache"] = "false"
    if config.watch_cache_sizes:
        flags["watch-cache-sizes"] = ",".join(
            f"{name}#{size}" for name, size in sorted(config.watch_cache_sizes.items())
        )
    if config.min_watch_seconds is not None:
        flags["min-request-timeout"] = str(config.min_watch_seconds)
    if config.compaction_seconds is not None:
        flags["etcd-compaction-interval"] = f"{config.compaction_seconds}s"
    if config.feature_gates:
        flags["feature-gates"] = ",".join(
            f"{name}={str(on).lower()}" for name, on in sorted(config.feature_gates.items())
        )
    return flags


def controller_manager_arguments(config: ControlPlaneConfig, layout: Layout) -> list[str]:
    """Return the arguments of kube-controller-manager: each controller under its own ServiceAccount, as in a cluster."""
    ours = {
        "kubeconfig": str(layout.kubeconfig("controller-manager")),
        "controllers": ",".join(config.controller_names),
        "use-service-account-credentials": "true",
        "service-account-private-key-file": str(layout.pki("service-account.key")),
        "root-ca-file": str(layout.pki("ca.crt")),
        "leader-elect": "false",
        "secure-port": "0",
        "profiling": "false",
    }
    return _flags(ours | dict(config.controller_manager_flags))


def audit_policy() -> str:
    """Return the audit policy: every request once, when it is complete, without bodies."""
    return json.dumps(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
    )


def kubeconfig(
    *, url: str, authority: bytes, user: str, credentials: KeyPair | str, namespace: str = "default"
) -> dict[str, Any]:
    """Return a kubeconfig with one context, everything embedded; `credentials` are a client certificate or a token."""
    if isinstance(credentials, KeyPair):
        identity = {
            "client-certificate-data": _base64(credentials.certificate),
            "client-key-data": _base64(credentials.key),
        }
    else:
        identity = {"token": credentials}
    cluster = {"server": url, "certificate-authority-data": _base64(authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "konverge", "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": "konverge", "context": {"cluster": "konverge", "user": user, "namespace": namespace}}],
        "current-context": "konverge",
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _flags(values: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]
