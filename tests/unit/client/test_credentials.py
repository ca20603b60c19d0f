"""The mounted ServiceAccount and other files that change while the client uses them."""

import asyncio
import os
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from konverge.client import ClientConfig
from konverge.client.credentials import FollowedFile
from konverge.errors import ConfigError

ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t-1\n")
    (tmp_path / "ca.crt").write_text("CA-1")
    (tmp_path / "namespace").write_text("web\n")
    return tmp_path


def swap(path: Path, content: str) -> None:
    """Replace a file as the kubelet does: a new inode under the same name, here with the old file's time."""
    before = path.stat()
    fresh = path.with_suffix(".new")
    fresh.write_text(content)
    os.utime(fresh, ns=(before.st_mtime_ns, before.st_mtime_ns))
    fresh.rename(path)


async def authorization(config: ClientConfig) -> str:
    return (await config.source.current()).authorization


def test_the_mount_gives_address_namespace_and_credentials(mount: Path) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert (config.server, config.namespace, config.host) == ("https://10.0.0.1:443", "web", "10.0.0.1:443")
    assert config.tls.verify


def test_an_address_of_version_6_is_bracketed(mount: Path) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ={**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert config.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_missing_variable_is_named(mount: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        ClientConfig.in_cluster(mount=mount, environ={key: text for key, text in ENVIRONMENT.items() if key != missing})


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_missing_or_empty_file_is_named(mount: Path, missing: str) -> None:
    (mount / missing).write_text("")
    with pytest.raises(ConfigError, match=f"{missing} is empty"):
        ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    (mount / missing).unlink()
    with pytest.raises(ConfigError, match=f"{missing} cannot be read.*automountServiceAccountToken"):
        ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)


def test_a_token_that_is_none_is_named_and_not_shown(mount: Path) -> None:
    (mount / "token").write_bytes("gehëim".encode())
    with pytest.raises(ConfigError, match="token holds something else") as caught:
        ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert "geh" not in str(caught.value)


async def test_a_rotated_token_and_authority_are_used_within_a_second(mount: Path) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert await authorization(config) == "Bearer t-1"
    swap(mount / "token", "t-2")
    swap(mount / "ca.crt", "CA-2")
    await asyncio.sleep(1)
    found = await config.source.current()
    assert (found.authorization, found.tls.ca) == ("Bearer t-2", b"CA-2")


async def test_a_token_that_the_server_refused_is_read_again_at_once(mount: Path) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert await authorization(config) == "Bearer t-1"
    swap(mount / "token", "t-2")
    config.source.distrust()
    assert await authorization(config) == "Bearer t-2"


async def test_a_change_that_no_stamp_shows_is_found_within_a_minute(mount: Path) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert await authorization(config) == "Bearer t-1"
    before = (mount / "token").stat()
    (mount / "token").write_text("t-2\n")
    os.utime(mount / "token", ns=(before.st_atime_ns, before.st_mtime_ns))
    await asyncio.sleep(2)
    assert await authorization(config) == "Bearer t-1"
    await asyncio.sleep(59)
    assert await authorization(config) == "Bearer t-2"


@pytest.mark.parametrize("broken", [None, "", "\u00e4"])
async def test_a_file_that_breaks_for_a_moment_keeps_its_last_content(mount: Path, broken: str | None) -> None:
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    assert await authorization(config) == "Bearer t-1"
    if broken is None:
        (mount / "token").unlink()
    else:
        (mount / "token").write_text(broken)
    await asyncio.sleep(2)
    assert await authorization(config) == "Bearer t-1"
    (mount / "token").write_text("t-3")
    await asyncio.sleep(2)
    assert await authorization(config) == "Bearer t-3"


async def test_a_file_is_not_looked_at_for_every_request(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    original = os.stat
    followed = FollowedFile(mount / "token")

    def counted(path: Path) -> os.stat_result:
        looks.append(path)
        return original(path)

    monkeypatch.setattr(os, "stat", counted)
    for _ in range(100):
        followed.read(5.0)
    assert len(looks) == 1


async def test_nothing_secret_shows(mount: Path) -> None:
    (mount / "token").write_text("s3cret-mounted")
    config = ClientConfig.in_cluster(mount=mount, environ=ENVIRONMENT)
    direct = ClientConfig.direct("https://x", token="s3cret", key=b"s3cret", certificate=b"s3cret")
    for found in (config, direct, await config.source.current(), await direct.source.current()):
        assert "s3cret" not in repr(found)
        assert "s3cret" not in pretty_repr(found), "rich, which developers' tracebacks use, reads fields by itself"
