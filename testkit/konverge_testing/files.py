"""The files that a control plane needs before its first program starts: keys, certificates, kubeconfigs, the audit policy.

Guarantees: every file has mode 0600, every folder 0700. There are two authorities: one for the API server and its users, one
for etcd, so that no certificate of a user opens etcd.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from konverge_testing import arguments
from konverge_testing.apiserver.certificates import Authority, KeyPair, signing_key
from konverge_testing.arguments import ADMIN_GROUP, HOST, SERVING_NAMES, Layout

__all__ = ["write_files", "write_kubeconfig"]


def write_files(layout: Layout) -> Authority:
    """Write everything below the layout's directory; returns the authority that signs users' certificates."""
    for folder in ("pki", "logs", "kubeconfigs"):
        (layout.directory / folder).mkdir(mode=0o700)
    authority = Authority.create("konverge-control-plane")
    etcd_authority = Authority.create("konverge-etcd")
    admin = authority.client("admin", groups=(ADMIN_GROUP,))
    _write(layout.pki("ca.crt"), authority.certificate)
    _write(layout.pki("etcd-ca.crt"), etcd_authority.certificate)
    _write(layout.pki("service-account.key"), signing_key())
    _write_pair(layout, "serving", authority.server("kube-apiserver", SERVING_NAMES))
    _write_pair(layout, "admin", admin)
    _write_pair(layout, "etcd", etcd_authority.server("etcd", (HOST, "localhost")))
    _write_pair(layout, "etcd-client", etcd_authority.client("kube-apiserver"))
    _write(layout.audit_policy, arguments.audit_policy().encode())
    manager = authority.client("system:kube-controller-manager")
    for name, user, pair in (
        ("admin", "admin", admin),
        ("controller-manager", "system:kube-controller-manager", manager),
    ):
        write_kubeconfig(
            layout.kubeconfig(name),
            arguments.kubeconfig(url=layout.url, authority=authority.certificate, user=user, credentials=pair),
        )
    return authority


def write_kubeconfig(path: Path, document: dict[str, Any]) -> Path:
    """Write a kubeconfig; JSON, which every reader of YAML reads."""
    return _write(path, json.dumps(document, indent=2).encode())


def _write_pair(layout: Layout, name: str, pair: KeyPair) -> None:
    _write(layout.pki(f"{name}.crt"), pair.certificate)
    _write(layout.pki(f"{name}.key"), pair.key)


def _write(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path
