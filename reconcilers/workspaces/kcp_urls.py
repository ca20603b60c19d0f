"""The URL of a workspace of kcp, which receives the credentials of the root. Pure.

kcp writes the URL into `spec.URL` of a Workspace: the address of a shard, and the path of the root with the name of the workspace
(https://github.com/kcp-dev/kcp, workspace_reconcile_scheduling.go). Another URL there would receive the credentials of the root, or name
another workspace, and the claim would become cluster-admin in it.

Guarantees: the URL that is used is built from the kubeconfig of the root, the setting and the name of the workspace. The URL in the
Workspace only selects among these, so that no two parsers can disagree about it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from konverge.reconcilers.shared.endpoints import Endpoint, InvalidEndpoint, parse_endpoint

__all__ = ["RefusedUrl", "root_problem", "workspace_url"]

_BELOW: Final = "/clusters/"
"""Part of the path of each workspace."""


class RefusedUrl(ValueError):
    """The URL of a workspace is not used; the message has the remedy, and no part of the URL that may be secret."""


def root_problem(root: str) -> str:
    """Return why the server of the root's kubeconfig cannot be used and the remedy; "" if it can.

    >>> root_problem("https://kcp.example.com/clusters/root")
    ''
    """
    try:
        server = parse_endpoint(root)
    except InvalidEndpoint as error:
        return f"the server of workspaces.kubeconfig cannot be used: {error}"
    if server.scheme != "https":
        return "the server of workspaces.kubeconfig is http://, over which its credentials would travel in the clear: write https://"
    _, _, name = urlsplit(root).path.rstrip("/").rpartition(_BELOW)
    if not name or "/" in name:
        return "the server of workspaces.kubeconfig is not the URL of a workspace: write its path, as in https://host/clusters/root"
    return ""


def workspace_url(url: str, name: str, *, root: str, hosts: tuple[str, ...] = ()) -> str:
    """Return the URL of a workspace below the root; raises RefusedUrl. `hosts` are servers beside the root's, as `host` or `host:port`.

    >>> workspace_url("https://KCP.example.com:443/clusters/root:acme", "acme", root="https://kcp.example.com/clusters/root")
    'https://kcp.example.com/clusters/root:acme'
    """
    problem = root_problem(root)
    if problem:
        raise RefusedUrl(problem)
    try:
        server = parse_endpoint(url)
    except InvalidEndpoint as error:
        raise RefusedUrl(f"kcp gives the workspace a URL that is not used: {error}") from None
    if "://" not in url or server not in (parse_endpoint(root), *(_listed(host) for host in hosts)):
        raise RefusedUrl(
            f"kcp gives the workspace a URL on {server}, and the credentials of kcp are only for {parse_endpoint(root)}: "
            "name the host in workspaces.hosts if it belongs to this kcp"
        )
    path = f"{urlsplit(root).path.rstrip('/')}:{name}"
    if urlsplit(url)[2:] != (path, "", ""):
        raise RefusedUrl(
            f"kcp gives the workspace a URL with another path than {path}: write the server of workspaces.kubeconfig with the "
            "path under which kcp names the root, as in https://host/clusters/root"
        )
    return f"{server}{path}"


def _listed(host: str) -> Endpoint:
    return parse_endpoint(f"https://{host}")
