"""The policy for endpoints that tenants name, row by row."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from konverge.reconcilers.shared.endpoints import (
    EndpointEntry,
    EndpointPolicy,
    InvalidEndpoint,
    is_public,
    parse_endpoint,
    same_server,
)

OPEN = EndpointPolicy(setting="a.setting")
LISTED = EndpointPolicy(
    ["s3.example.com", "s3.example.com:9000", "*.buckets.example.com", "http://minio.minio.svc:9000", "10.0.0.7"],
    setting="a.setting",
)


@pytest.mark.parametrize(
    "url",
    [
        "https://s3.eu-central-1.amazonaws.com",
        "https://s3.example.com:443/a/path",
        "s3.example.com",
        "HTTPS://S3.EXAMPLE.COM.",
        "https://xn--bcher-kva.example",
        "https://1.1.1.1",
        "https://[2606:4700::1111]",
        "https://svcs.example.com",
    ],
)
def test_public_https_host_is_allowed_without_a_list(url: str) -> None:
    assert OPEN.refusal(url) == ""
    assert OPEN.needs_public_address(url)


@pytest.mark.parametrize(
    "url",
    [
        # scheme and port
        "http://s3.example.com",
        "ftp://s3.example.com",
        "file:///etc/passwd",
        "gopher://s3.example.com",
        "https://s3.example.com:22",
        "https://s3.example.com:6443",
        "https://s3.example.com:0",
        "https://s3.example.com:99999",
        "https://s3.example.com:+443",
        # loopback, link-local, private and cluster addresses
        "https://127.0.0.1",
        "https://127.8.9.1",
        "https://0.0.0.0",
        "https://169.254.169.254",
        "https://10.96.0.1",
        "https://172.16.3.4",
        "https://192.168.1.1",
        "https://100.64.0.1",
        "https://224.0.0.1",
        "https://255.255.255.255",
        "https://[::1]",
        "https://[::]",
        "https://[fe80::1]",
        "https://[fe80::1%25eth0]",
        "https://[fd00::1]",
        "https://[fec0::1]",
        "https://[ff02::1]",
        "https://[::ffff:127.0.0.1]",
        "https://[::ffff:a9fe:a9fe]",
        "https://[::127.0.0.1]",
        "https://[64:ff9b::10.0.0.1]",
        "https://[64:ff9b:1::1.1.1.1]",
        "https://[2002:7f00:1::]",
        "https://[2001:0:7f00:1::]",
        # the same addresses in other spellings that libraries accept
        "https://127.1",
        "https://2130706433",
        "https://0x7f000001",
        "https://0x7f.0.0.1",
        "https://0177.0.0.1",
        "https://127.0.0.01",
        "https://127.0.0.1.",
        "https://0",
        "https://a.0x1",
        "https://127。0。0。1",
        "https://\uff11\uff12\uff17.\uff10.\uff10.\uff11",
        "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        # names of clusters and private networks
        "https://localhost",
        "https://localhost.",
        "https://a.localhost",
        "https://minio",
        "https://minio.minio.svc",
        "https://minio.minio.svc.cluster.local",
        "https://kubernetes.default.svc.example.com",
        "https://metadata.google.internal",
        "https://nas.home.arpa",
        "https://nas.lan",
        # another host than it seems
        "https://s3.example.com@127.0.0.1",
        "https://user:password@s3.example.com",
        "https://s3.example.com\\@127.0.0.1",
        "https://127.0.0.1\\.s3.example.com",
        "https://s3.example.com%2f@x",
        "https://s3.example.com%00.evil.example",
        "https://127.0.0.1#.s3.example.com",
        "https://127.0.0.1?.s3.example.com",
        "https://s3.exam\tple.com",
        "https://s3.example.com\n",
        " https://s3.example.com",
        "https://bücher.example",
        "https:///s3.example.com",
        "https://",
        "https://-a.example.com",
        "https://a..example.com",
        "https://[1.1.1.1]",
        "https://[::1",
        "",
        f"https://{'a' * 64}.example.com",
        f"https://{'a.' * 130}com",
    ],
)
def test_endpoint_that_is_not_a_public_https_host_is_refused(url: str) -> None:
    assert OPEN.refusal(url) != ""


@pytest.mark.parametrize(
    ("url", "public_only"),
    [
        ("https://s3.example.com", False),
        ("https://S3.example.com:9000/", False),
        ("https://a.buckets.example.com", True),
        ("http://minio.minio.svc:9000", False),
        ("https://10.0.0.7", False),
    ],
)
def test_listed_endpoint_is_allowed_with_its_scheme_and_port(url: str, public_only: bool) -> None:
    assert LISTED.refusal(url) == ""
    assert LISTED.needs_public_address(url) is public_only


@pytest.mark.parametrize(
    "url",
    [
        "https://s3.amazonaws.com",
        "http://s3.example.com",
        "https://s3.example.com:9001",
        "https://evil-s3.example.com",
        "https://s3.example.com.evil.net",
        "https://x.s3.example.com",
        "https://buckets.example.com",
        "https://a.svc.buckets.example.com",
        "https://evilbuckets.example.com",
        "https://minio.minio.svc:9000",
        "http://minio.minio.svc",
        "http://10.0.0.7",
        "https://10.0.0.8",
        "https://[::ffff:10.0.0.7]",
    ],
)
def test_list_allows_only_its_own_entries(url: str) -> None:
    assert LISTED.refusal(url) != ""
    assert LISTED.needs_public_address(url) or url.startswith("https://a.svc")


def test_wildcard_never_matches_an_address() -> None:
    policy = EndpointPolicy(["*.0.0.1.example.com"], setting="a.setting")

    assert policy.refusal("https://127.0.0.1") != ""


def test_refusal_names_the_remedy_and_no_path() -> None:
    said = [
        OPEN.refusal(f"{base}/secret?token=x") for base in ("http://a.example", "https://10.0.0.1", "https://a.io:1")
    ]

    assert all("a.setting" in message for message in said)
    assert not any("secret" in message or "token" in message for message in said)


@pytest.mark.parametrize(
    "entry", ["", "*", "*.", "https://", "a/path", "ftp://a.example", "a b", "user@a.example", "*.*.a.io"]
)
def test_unreadable_entry_of_a_list_is_refused_by_the_settings(entry: str) -> None:
    class _Settings(BaseModel):
        endpoints: tuple[EndpointEntry, ...] = ()

    with pytest.raises(ValidationError):
        _Settings(endpoints=(entry,))
    with pytest.raises(InvalidEndpoint):
        EndpointPolicy([entry], setting="a.setting")


@pytest.mark.parametrize(
    "address", ["fe80::1%eth0", "300.1.1.1", "", "a", "240.0.0.1", "192.0.2.1", "198.18.0.1", "2001:db8::1"]
)
def test_address_without_public_use_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::", "2a00:1450::1"])
def test_address_is_as_public_as_the_address_that_it_embeds(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example", "a.example:443/x", True),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a b", "https://a b", False),
        ("", "", False),
    ],
)
def test_servers_are_compared_by_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert same_server(one, other) is same


def test_endpoint_is_written_in_one_canonical_form() -> None:
    assert str(parse_endpoint("https://[2606:4700:0:0::1111]:8443/x")) == "https://[2606:4700::1111]:8443"
