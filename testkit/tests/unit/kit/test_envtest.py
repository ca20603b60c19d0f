import re

import pytest

from konverge_testing.envtest import archive_for, platform_name


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "linux-amd64"),
        ("Linux", "aarch64", "linux-arm64"),
        ("Darwin", "arm64", "darwin-arm64"),
        ("Darwin", "x86_64", "darwin-amd64"),
        ("Linux", "riscv64", "linux-riscv64"),
    ],
)
def test_a_platform_is_named_as_the_archives_are(system: str, machine: str, name: str) -> None:
    assert platform_name(system, machine) == name


@pytest.mark.parametrize("platform", ["linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"])
def test_the_checksum_of_every_archive_is_a_whole_sha_512(platform: str) -> None:
    archive = archive_for(platform, {})
    assert archive is not None
    assert re.fullmatch(r"[0-9a-f]{128}", archive.sha512)
    assert archive.url.startswith("https://")
    assert archive.url.endswith(f"/envtest-v1.36.2/envtest-v1.36.2-{platform}.tar.gz")


def test_a_platform_without_a_pinned_checksum_has_no_archive() -> None:
    assert archive_for("linux-riscv64", {}) is None


def test_a_mirror_changes_the_address_and_not_the_checksum() -> None:
    official = archive_for("linux-amd64", {})
    mirrored = archive_for("linux-amd64", {"KONVERGE_ENVTEST_MIRROR": "https://mirror.example/envtest/"})
    assert official is not None
    assert mirrored is not None
    assert mirrored.url == "https://mirror.example/envtest/envtest-v1.36.2/envtest-v1.36.2-linux-amd64.tar.gz"
    assert mirrored.sha512 == official.sha512
