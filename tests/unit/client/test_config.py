import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from konverge.client import ClientConfig
from konverge.errors import ConfigError

KUBECONFIG = {
    "current-context": "one",
    "contexts": [{"name": "one", "context": {"cluster": "one"}}],
    "clusters": [{"name": "one", "cluster": {"server": "https://from-file:1"}}],
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(KUBECONFIG).replace("from-file", "from-home"))
    return tmp_path


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    folder = tmp_path / "mount"
    folder.mkdir()
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("CA")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def server(
    home: Path, mount: Path, env: dict[str, str], *, kubeconfig: Path | None = None, context: str | None = None
) -> str:
    environ = {"HOME": str(home), **env}
    found = await ClientConfig.load(kubeconfig=kubeconfig, context=context, mount=mount, environ=environ)
    return found.server


async def test_the_order_is_argument_variable_mount_home(home: Path, mount: Path, tmp_path: Path) -> None:
    argument, variable = tmp_path / "argument", tmp_path / "variable"
    argument.write_text(yaml.safe_dump(KUBECONFIG).replace("from-file", "from-argument"))
    variable.write_text(yaml.safe_dump(KUBECONFIG).replace("from-file", "from-variable"))
    assert (
        await server(home, mount, {**POD, "KUBECONFIG": str(variable)}, kubeconfig=argument)
        == "https://from-argument:1"
    )
    assert await server(home, mount, {**POD, "KUBECONFIG": str(variable)}) == "https://from-variable:1"
    assert await server(home, mount, POD) == "https://10.0.0.1:443"
    assert await server(home, mount, {}) == "https://from-home:1"


async def test_a_named_context_means_a_kubeconfig(home: Path, mount: Path) -> None:
    assert await server(home, mount, POD, context="one") == "https://from-home:1"


async def test_a_variable_that_points_nowhere_is_an_error_and_not_passed_over(home: Path, mount: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        await server(home, mount, {**POD, "KUBECONFIG": "absent"})


async def test_without_any_configuration_the_error_lists_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await server(tmp_path, tmp_path / "mount", {})
    for tried in ("argument", "$KUBECONFIG", str(tmp_path / "mount"), str(tmp_path / ".kube" / "config")):
        assert tried in str(caught.value)


@pytest.mark.parametrize("address", ["", "localhost:8080", "ftp://x", "https://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="no URL"):
        ClientConfig.direct(address)


def test_path_below_the_host_is_kept_and_the_label_has_only_host() -> None:
    config = ClientConfig.direct("https://rancher:8443/k8s/clusters/c-1/")
    assert (config.server, config.host) == ("https://rancher:8443/k8s/clusters/c-1", "rancher:8443")


IN_CLUSTER = """
import asyncio, sys
from pathlib import Path
from konverge.client import Client, ClientConfig, ClientSettings
from konverge.errors import Unreachable
from konverge.kinds import kind

async def main():
    config = await ClientConfig.load(
        mount=Path(sys.argv[1]),
        environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1", "HOME": "/nonexistent"},
    )
    async with Client(config, name="test", settings=ClientSettings(attempts=1)) as client:
        try:
            await client.get(kind("v1", "Namespace"), "default")
        except Unreachable:
            print("asked")
    print([name for name in sys.modules if name.startswith("kubernetes_asyncio")])

asyncio.run(main())
"""


def test_in_a_cluster_kubernetes_asyncio_is_never_imported(mount: Path, tmp_path: Path) -> None:
    import trustme

    trustme.CA().cert_pem.write_to_path(mount / "ca.crt")
    run = subprocess.run(
        [sys.executable, "-c", IN_CLUSTER, str(mount)], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split("\n")[:2] == ["asked", "[]"]
