"""Choosing a context, TLS data, impersonation, ends of credentials: the pure parts, and loading without a plugin."""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.client import ClientConfig
from konverge.client.kubeconfig import choose, impersonation, paths_of, renew_at, tls_material, token_end
from konverge.errors import ConfigError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def content(context: str = "one", *, server: str = "https://one:6443", **user: Any) -> dict[str, Any]:
    return {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "web"}}],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": user}],
    }


def write(path: Path, data: Any) -> Path:
    path.write_text(yaml.safe_dump(data))
    return path


async def load(path: Path | str, **options: Any) -> ClientConfig:
    return await ClientConfig.from_kubeconfig(path, environ={}, **options)


async def authorization(config: ClientConfig) -> str:
    return (await config.source.current()).authorization


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No key and no certificate is left in the folder for temporary files."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield
    assert list(temporary.iterdir()) == []


async def test_a_token_and_a_namespace(tmp_path: Path) -> None:
    config = await load(write(tmp_path / "config", content(token="t-1")))
    assert (config.server, config.namespace) == ("https://one:6443", "web")
    assert await authorization(config) == "Bearer t-1"
    assert "context one" in config.origin


async def test_a_password_in_a_kubeconfig_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    config = await load(write(tmp_path / "config", content(username="u", password="p")))
    assert await authorization(config) == f"Basic {encoded('u:p')}"


async def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    data = content()
    del data["contexts"][0]["context"]["user"]
    data["users"] = None
    assert await authorization(await load(write(tmp_path / "config", data))) == ""


async def test_tls_data_stays_in_memory_and_files_are_relative_to_their_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "key").write_text("KEY")
    data = content(**{"client-certificate-data": encoded("CERT"), "client-key": "pki/key"})
    data["clusters"][0]["cluster"]["certificate-authority-data"] = encoded("CA")
    found = (await (await load(write(tmp_path / "config", data))).source.current()).tls
    assert (found.ca, found.certificate, found.key) == (b"CA", b"CERT", b"KEY")


async def test_cluster_options_are_taken_over(tmp_path: Path) -> None:
    data = content(token="t")
    data["clusters"][0]["cluster"] |= {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other",
        "proxy-url": "http://proxy:3128",
    }
    config = await load(write(tmp_path / "config", data), strict_x509=False)
    assert (config.tls.verify, config.tls.server_name, config.tls.strict_x509) == (False, "other", False)
    assert config.proxy == "http://proxy:3128"


async def test_a_proxy_of_the_environment_is_used_unless_the_cluster_names_one(tmp_path: Path) -> None:
    path = write(tmp_path / "config", content(token="t"))
    config = await ClientConfig.from_kubeconfig(path, environ={"HTTPS_PROXY": "http://proxy:1"})
    assert config.proxy == "http://proxy:1"


async def test_of_joined_files_the_first_wins_as_in_kubectl(tmp_path: Path) -> None:
    first = write(tmp_path / "first", content("one", token="t-1"))
    second = write(tmp_path / "second", {**content("two", server="https://two:6443", token="t-2")})
    joined = os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)])
    assert (await load(joined)).server == "https://one:6443"
    other = await load(joined, context="two")
    assert (other.server, await authorization(other)) == ("https://two:6443", "Bearer t-2")


async def test_a_token_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t-1\n")
    config = await load(write(tmp_path / "config", content(tokenFile="token")))
    assert await authorization(config) == "Bearer t-1"
    (tmp_path / "token").write_text("t-22\n")
    assert await authorization(config) == "Bearer t-1"
    await asyncio.sleep(2)
    assert await authorization(config) == "Bearer t-22"


async def test_refused_token_is_read_from_the_file_again_without_a_loop(tmp_path: Path) -> None:
    path = write(tmp_path / "config", content(token="t-1"))
    config = await load(path)
    assert await authorization(config) == "Bearer t-1"
    write(path, content(token="t-2"))
    await asyncio.sleep(60)
    assert await authorization(config) == "Bearer t-1"
    config.source.distrust()
    assert await authorization(config) == "Bearer t-2"
    write(path, content(token="t-3"))
    config.source.distrust()
    assert await authorization(config) == "Bearer t-2"
    await asyncio.sleep(10)
    assert await authorization(config) == "Bearer t-3"


async def test_while_a_renewal_fails_the_old_credentials_serve(tmp_path: Path) -> None:
    path = write(tmp_path / "config", content(token="t-1"))
    config = await load(path)
    path.unlink()
    config.source.distrust()
    assert await authorization(config) == "Bearer t-1"
    write(path, content(token="t-2"))
    await asyncio.sleep(10)
    assert await authorization(config) == "Bearer t-2"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "no current-context"),
        ([1], "no kubeconfig"),
        (content() | {"current-context": "other"}, "no context 'other'; there are: one"),
        (content() | {"clusters": []}, "names the cluster 'one', which is not there"),
        (content() | {"users": []}, "names the user 'one', which is not there"),
        (content(server=""), "has no server"),
        (content(server="one:6443"), "no URL of an API server"),
        (content(**{"client-certificate-data": encoded("CERT")}), "belong together"),
        (content(**{"client-certificate-data": "*", "client-key-data": "b"}), "client-certificate-data is not base64"),
        (content(**{"client-certificate": "absent", "client-key": "absent"}), "absent: No such file"),
        (content(exec={"command": "x"}), "the plugin has no apiVersion"),
        (content(exec={"command": "x", "apiVersion": "v1", "interactiveMode": "Always"}), "has no terminal"),
        (
            content(exec={"command": "konverge-no-such-program", "apiVersion": "v1", "installHint": "get it there"}),
            "konverge-no-such-program: No such file or directory; get it there",
        ),
    ],
)
async def test_an_error_of_a_kubeconfig_names_the_file(tmp_path: Path, data: Any, words: str) -> None:
    path = write(tmp_path / "config", data)
    with pytest.raises(ConfigError) as caught:
        await load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


async def test_yaml_that_is_none_and_files_that_are_absent_are_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(ConfigError, match="config"):
        await load(tmp_path / "config")
    with pytest.raises(ConfigError, match="no such file"):
        await load(tmp_path / "absent")


def test_several_paths_are_split_and_absent_ones_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a", {})
    assert paths_of(f"{tmp_path}/a{os.pathsep}{os.pathsep}{tmp_path}/b") == [tmp_path / "a"]


@pytest.mark.parametrize(
    ("part", "field", "value", "message"),
    [
        ("cluster", "insecure-skip-tls-verify", "false", "has to be true or false, and is a text; remove its quotes"),
        ("cluster", "insecure-skip-tls-verify", "no", "has to be true or false, and is a text; remove its quotes"),
        ("cluster", "insecure-skip-tls-verify", 0, "has to be true or false, and is a number"),
        ("cluster", "disable-compression", "true", "has to be true or false, and is a text"),
        ("cluster", "server", 6443, "has to be a text, and is a number; put it in quotes"),
        ("cluster", "tls-server-name", ["a"], "has to be a text, and is a list"),
        ("cluster", "certificate-authority-data", {}, "has to be a text, and is a mapping"),
        ("cluster", "extensions", {}, "has to be a list, and is a mapping"),
        ("context", "namespace", 7, "has to be a text, and is a number; put it in quotes"),
        ("user", "token", 12345, "has to be a text, and is a number; put it in quotes"),
        ("user", "password", True, "has to be a text, and is true or false; put it in quotes"),
        ("user", "as-groups", "admins", "has to be a list, and is a text"),
        ("user", "as-user-extra", {"team": "web"}, "has to be a list, and is a text"),
        ("user", "exec", {"args": "--x"}, "has to be a list, and is a text"),
        ("user", "exec", {"provideClusterInfo": "false"}, "has to be true or false, and is a text"),
        ("user", "exec", {"env": [{"name": "A", "value": 1}]}, "has to be a text, and is a number"),
        ("user", "exec", {"env": [{"name": "A"}]}, "the variable 'A' in exec.env has no value"),
        ("user", "exec", {"env": [{"value": "a"}]}, "exec.env[0] has no name"),
        ("user", "as-uid", "7", "need `as`, the user to impersonate"),
    ],
)
def test_fields_of_another_type_are_refused_as_by_kubectl(part: str, field: str, value: Any, message: str) -> None:
    config = content(token="secret-token")
    config[f"{part}s"][0][part][field] = value
    with pytest.raises(ConfigError) as refused:
        choose({Path("config"): config}, None)
    assert message in str(refused.value)
    assert "12345" not in str(refused.value)


def test_fields_of_null_count_as_absent() -> None:
    config = content(token=None, exec=None)
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = None
    assert choose({Path("config"): config}, None).context == "one"


@pytest.mark.parametrize(
    ("key", "header"),
    [
        ("scopes", "Impersonate-Extra-scopes"),
        ("example.com/team", "Impersonate-Extra-example.com%2Fteam"),
        ("a b", "Impersonate-Extra-a%20b"),
        ("100%", "Impersonate-Extra-100%25"),
        ("größe", "Impersonate-Extra-gr%C3%B6%C3%9Fe"),
        ("!#$&'*+-.^_`|~", "Impersonate-Extra-!#$&'*+-.^_`|~"),
    ],
)
def test_keys_of_impersonation_extras_are_percent_encoded(key: str, header: str) -> None:
    assert impersonation({"as": "jane", "as-user-extra": {key: ["x"]}})[1] == (header, "x")


def test_impersonation_becomes_headers() -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x", "y"]}}
    assert impersonation(user) == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "x"),
        ("Impersonate-Extra-scope", "y"),
    )
    assert impersonation({}) == ()


def jwt(claims: dict[str, Any]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"Bearer header.{body}.signature"


@pytest.mark.parametrize(
    ("authorization", "end"),
    [
        (jwt({"exp": NOW.timestamp(), "x": "~~~???>>>"}), NOW),
        (jwt({"sub": "x"}), None),
        (jwt({"exp": "soon"}), None),
        ("Bearer opaque", None),
        ("Bearer a.b.c", None),
        ("", None),
    ],
)
def test_the_end_of_a_token(authorization: str, end: datetime | None) -> None:
    assert token_end(authorization) == end


@pytest.mark.parametrize(
    ("life", "before"),
    [(3600, 60), (600, 60), (100, 10), (0, 0), (-5, 0)],
)
def test_credentials_are_renewed_before_their_end_and_not_all_the_time(life: int, before: int) -> None:
    end = NOW + timedelta(seconds=life)
    assert renew_at(end, NOW) == end - timedelta(seconds=before)
    assert renew_at(None, NOW) is None


def test_data_wins_over_files_and_nothing_is_nothing(tmp_path: Path) -> None:
    data = content(**{"client-key": "absent", "client-key-data": encoded("K"), "client-certificate-data": encoded("C")})
    choice = choose({tmp_path / "config": data}, None)
    assert tls_material(choice).key == b"K"
    assert tls_material(choose({tmp_path / "config": content()}, None)).certificate == b""
