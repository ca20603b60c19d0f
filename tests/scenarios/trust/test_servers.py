"""Servers in the fields of other users: the credentials of kcp's root are sent only to its own server.

The servers that a Nextcloud names are attacks of tests/support/trust/rows/pools.py.
"""

import json
from pathlib import Path

import pytest

from konverge.reconcilers.workspaces.kcp import root_of
from konverge.reconcilers.workspaces.provider import WorkspaceRefused

ROOT = "https://kcp.example.com:6443/clusters/root"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "root",
    "contexts": [{"name": "root", "context": {"cluster": "root", "user": "root"}}],
    "clusters": [{"name": "root", "cluster": {"server": ROOT}}],
    "users": [{"name": "root", "user": {"token": "hunter2"}}],
}


@pytest.mark.parametrize(
    "url",
    [
        "http://kcp.example.com:6443/clusters/root:acme",
        "https://mallory.example.com:6443/clusters/root:acme",
        "https://kcp.example.com.mallory.example.com:6443/clusters/root:acme",
        "https://kcp.example.com:6443@mallory.example.com/clusters/root:acme",
        "https://kcp.example.com:8443/clusters/root:acme",
        "https://127.0.0.1:6443/clusters/root:acme",
        "https://kcp.example.com:6443/clusters/root:acme/../root",
        "https://kcp.example.com:6443/clusters/root:victim",
    ],
)
async def test_the_token_of_the_root_goes_to_no_url_of_others(url: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    with pytest.raises(WorkspaceRefused):
        await root_of(str(kubeconfig))("acme", url)


async def test_a_workspace_of_the_roots_own_server_gets_the_token(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    own = "https://kcp.example.com:6443/clusters/root:acme"
    assert (await root_of(str(kubeconfig))("acme", own)).server == own
