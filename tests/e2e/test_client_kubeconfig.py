"""Credential plugins of a kubeconfig: real programs, real time."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from konverge.client import ClientConfig, kubeconfig
from konverge.clock import rfc3339, wall_clock
from konverge.errors import ConfigError

pytestmark = pytest.mark.both_loops

PLUGIN = """
import json, os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[1])
runs = folder / "runs"
runs.write_text(str(int(runs.read_text() or 0) + 1) if runs.exists() else "1")
status = json.loads((folder / "status").read_text())
if "fail" in status:
    sys.exit(status["fail"])
if "sleep" in status:
    subprocess.run([sys.executable, "-c", "import sys, time; time.sleep(60)", str(folder / "grandchild")])
(folder / "asked").write_text(os.environ["KUBERNETES_EXEC_INFO"] + os.environ.get("GIVEN", ""))
status = {key: str(value).replace("{n}", runs.read_text()) for key, value in status.items()}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""

Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Write a kubeconfig whose plugin prints this status; counts its runs."""
    monkeypatch.setattr(kubeconfig, "RENEW_EVERY", 0.0)

    def write(**status: Any) -> Path:
        (tmp_path / "status").write_text(json.dumps(status))
        (tmp_path / "plugin.py").write_text(PLUGIN)
        plugin = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(tmp_path / "plugin.py"), str(tmp_path)],
            "env": [{"name": "GIVEN", "value": "value"}],
            "provideClusterInfo": True,
        }
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": "https://it:6443"}}],
            "users": [{"name": "it", "user": {"exec": plugin}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        return tmp_path / "config"

    return write


def in_seconds(seconds: float) -> str:
    return rfc3339(wall_clock() + timedelta(seconds=seconds))


async def load(path: Path, **options: Any) -> ClientConfig:
    return await ClientConfig.from_kubeconfig(path, environ={}, **options)


async def test_a_plugin_runs_once_until_its_token_ends(configure: Configure) -> None:
    config = await load(configure(token="t-{n}", expirationTimestamp=in_seconds(3600)))
    for _ in range(5):
        assert (await config.source.current()).authorization == "Bearer t-1"


async def test_a_token_that_ends_is_renewed_by_one_run_however_many_ask(configure: Configure, tmp_path: Path) -> None:
    config = await load(configure(token="t-{n}", expirationTimestamp=in_seconds(-1)))
    configure(token="t-{n}", expirationTimestamp=in_seconds(3600))
    found = await asyncio.gather(*(config.source.current() for _ in range(10)))
    assert {one.authorization for one in found} == {"Bearer t-2"}
    assert (tmp_path / "runs").read_text() == "2"


async def test_a_token_without_an_end_is_renewed_when_it_is_refused(configure: Configure) -> None:
    config = await load(configure(token="t-{n}"))
    assert (await config.source.current()).authorization == "Bearer t-1"
    config.source.distrust()
    assert (await config.source.current()).authorization == "Bearer t-2"
    assert (await config.source.current()).authorization == "Bearer t-2"


async def test_a_plugin_may_give_a_certificate_which_is_renewed_at_its_end(configure: Configure) -> None:
    ca = trustme.CA()

    def issue(seconds: float) -> tuple[str, str]:
        leaf = ca.issue_cert(
            "jane", not_before=wall_clock() - timedelta(days=1), not_after=wall_clock() + timedelta(seconds=seconds)
        )
        return leaf.cert_chain_pems[0].bytes().decode(), leaf.private_key_pem.bytes().decode()

    (old, old_key), (new, new_key) = issue(0), issue(3600)
    config = await load(configure(clientCertificateData=old, clientKeyData=old_key))
    configure(clientCertificateData=new, clientKeyData=new_key)
    found = (await config.source.current()).tls
    assert (found.certificate.decode(), found.key.decode()) == (new, new_key)
    assert (await config.source.current()).tls is found


async def test_failing_plugin_is_an_error_at_start_and_a_warning_later(configure: Configure) -> None:
    path = configure(fail="log in first")
    with pytest.raises(ConfigError, match="log in first"):
        await load(path)
    config = await load(configure(token="t-{n}", expirationTimestamp=in_seconds(-1)))
    configure(fail="log in again")
    assert (await config.source.current()).authorization == "Bearer t-2"
    configure(token="t-{n}", expirationTimestamp=in_seconds(3600))
    assert (await config.source.current()).authorization == "Bearer t-4"


async def test_a_plugin_may_give_both_a_token_and_a_certificate(configure: Configure) -> None:
    config = await load(configure(token="t", clientCertificateData="CERT", clientKeyData="KEY"))
    found = await config.source.current()
    assert (found.authorization, found.tls.certificate, found.tls.key) == ("Bearer t", b"CERT", b"KEY")


async def test_a_plugin_gets_the_cluster_info_and_its_environment(configure: Configure, tmp_path: Path) -> None:
    await load(configure(token="t"))
    assert (tmp_path / "asked").read_text() == (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"spec":{"interactive":false,"cluster":{"server":"https://it:6443"}}}value'
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "neither a token nor a certificate"),
        ({"clientCertificateData": "x"}, "without its key"),
        ({"token": "s3cret", "expirationTimestamp": "soon"}, "no ExecCredential"),
    ],
)
async def test_an_answer_that_is_none_is_named_and_not_shown(
    configure: Configure, status: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        await load(configure(**status))
    assert "s3cret" not in str(caught.value)


@pytest.mark.linux
async def test_hanging_plugin_is_killed_with_all_its_child_processes(configure: Configure, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did not come within 1 s"):
        await load(configure(token="t", sleep=1), timeout=1.0)
    assert (tmp_path / "runs").read_text() == "1"
    async with asyncio.timeout(10):  # a killed process ends at the kernel's next chance
        while any(str(tmp_path).encode() in _bytes(path) for path in Path("/proc").glob("[0-9]*/cmdline")):
            await asyncio.sleep(0.01)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
