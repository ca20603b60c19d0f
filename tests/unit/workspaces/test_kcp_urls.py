"""The URLs of workspaces that get the credentials of kcp's root, row by row."""

import pytest
from pydantic import ValidationError

from konverge.reconcilers.workspaces import WorkspaceSettings
from konverge.reconcilers.workspaces.kcp_urls import RefusedUrl, root_problem, workspace_url

ROOT = "https://kcp.example.com:6443/clusters/root"
HOSTS = ("shard-1.example.com", "shard-2.example.com:6444")


@pytest.mark.parametrize(
    ("url", "used"),
    [
        (f"{ROOT}:acme", f"{ROOT}:acme"),
        ("HTTPS://KCP.example.COM:6443/clusters/root:acme", f"{ROOT}:acme"),
        ("https://kcp.example.com.:6443/clusters/root:acme", f"{ROOT}:acme"),
        ("https://shard-1.example.com/clusters/root:acme", "https://shard-1.example.com/clusters/root:acme"),
        ("https://shard-1.example.com:443/clusters/root:acme", "https://shard-1.example.com/clusters/root:acme"),
        ("https://shard-2.example.com:6444/clusters/root:acme", "https://shard-2.example.com:6444/clusters/root:acme"),
    ],
)
def test_url_of_the_root_or_a_listed_host_has_one_spelling(url: str, used: str) -> None:
    assert workspace_url(url, "acme", root=ROOT, hosts=HOSTS) == used


REFUSED = [
    # scheme
    "http://kcp.example.com:6443/clusters/root:acme",
    "http://shard-1.example.com/clusters/root:acme",
    "kcp.example.com:6443/clusters/root:acme",
    "//kcp.example.com:6443/clusters/root:acme",
    "file:///clusters/root:acme",
    "",
    # host and port
    "https://evil.example.net:6443/clusters/root:acme",
    "https://127.0.0.1:6443/clusters/root:acme",
    "https://kcp.example.com/clusters/root:acme",
    "https://kcp.example.com:443/clusters/root:acme",
    "https://kcp.example.com:6444/clusters/root:acme",
    "https://kcp.example.com:/clusters/root:acme",
    "https://kcp.example.com:\uff16\uff14\uff14\uff13/clusters/root:acme",
    "https://kcp.example.com.evil.example.net:6443/clusters/root:acme",
    "https://evil-kcp.example.com:6443/clusters/root:acme",
    "https://x.kcp.example.com:6443/clusters/root:acme",
    "https://kcp.example.com..:6443/clusters/root:acme",
    "https://shard-2.example.com/clusters/root:acme",
    # another host for another parser
    "https://kcp.example.com:6443@evil.example.net/clusters/root:acme",
    "https://evil.example.net@kcp.example.com:6443/clusters/root:acme",
    "https://user:s3cret@kcp.example.com:6443/clusters/root:acme",
    "https://evil.example.net\\@kcp.example.com:6443/clusters/root:acme",
    "https://evil.example.net#@kcp.example.com:6443/clusters/root:acme",
    "https://evil.example.net?@kcp.example.com:6443/clusters/root:acme",
    "https://kcp.example.com:6443\t/clusters/root:acme",
    "https://kcp.exam\nple.com:6443/clusters/root:acme",
    " https://kcp.example.com:6443/clusters/root:acme",
    "https://\u043ac\u0440.example.com:6443/clusters/root:acme",
    "https://kcp\u3002example.com:6443/clusters/root:acme",
    "https://[kcp.example.com]:6443/clusters/root:acme",
    "https://[::1/clusters/root:acme",
    # another workspace
    "https://kcp.example.com:6443",
    "https://kcp.example.com:6443/",
    "https://kcp.example.com:6443/clusters/root",
    "https://kcp.example.com:6443/clusters/root:victim",
    "https://kcp.example.com:6443/clusters/root:acme:child",
    "https://kcp.example.com:6443/clusters/root:acme/",
    "https://kcp.example.com:6443/clusters/root:victim/../root:acme",
    "https://kcp.example.com:6443/clusters/root:acme/../root",
    "https://kcp.example.com:6443/clusters/root:acme/%2e%2e/root",
    "https://kcp.example.com:6443/clusters/root%3Aacme",
    "https://kcp.example.com:6443/clusters//root:acme",
    "https://kcp.example.com:6443/services/apiexport/root:acme",
    "https://kcp.example.com:6443/clusters/root:acme?x=/../",
    "https://kcp.example.com:6443/clusters/root:acme#x",
    "https://kcp.example.com:6443?/clusters/root:acme",
]


@pytest.mark.parametrize("url", REFUSED)
def test_other_servers_and_other_workspaces_are_refused(url: str) -> None:
    with pytest.raises(RefusedUrl) as refused:
        workspace_url(url, "acme", root=ROOT, hosts=HOSTS)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("root", "remedy"),
    [
        ("http://kcp.example.com:6443/clusters/root", "write https://"),
        ("https://kcp.example.com:6443", "write its path"),
        ("https://kcp.example.com:6443/clusters/", "write its path"),
        ("https://kcp.example.com:6443/clusters/root/api", "write its path"),
        ("https://admin:s3cret@kcp.example.com/clusters/root", "a user or a password"),
    ],
)
def test_root_without_https_or_a_workspace_is_refused_with_the_remedy(root: str, remedy: str) -> None:
    assert remedy in root_problem(root)
    with pytest.raises(RefusedUrl, match=remedy):
        workspace_url(f"{root}:acme", "acme", root=root)


def test_path_of_a_root_below_other_workspaces_or_a_prefix_is_kept() -> None:
    root = "https://kcp.example.com/kcp/clusters/root:org:team/"
    used = "https://kcp.example.com/kcp/clusters/root:org:team:acme"
    assert workspace_url(used, "acme", root=root) == used


@pytest.mark.parametrize("host", ["https://a.io", "a.io/x", "a.io?x", "user@a.io", "*.a.io", "a.io:0", "", "a b"])
def test_hosts_of_the_settings_are_hosts_with_an_optional_port(host: str) -> None:
    with pytest.raises(ValidationError, match=r"hosts\.0"):
        WorkspaceSettings(hosts=(host,))
