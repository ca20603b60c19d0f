"""The examples in Go, Rust and JavaScript on `konverge apiserver run`, and on a real control plane, so that the results match a cluster."""

import asyncio
import contextlib
import os
import shutil
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path

import other_languages
import pytest
from built_programs import built_or_skipped
from other_languages import EXAMPLES
from served_apiserver import served

from konverge.client import Client, ClientConfig
from konverge.errors import NotFound
from konverge.kinds import kind
from konverge_testing.binaries import CACHE_VARIABLE
from konverge_testing.control_plane import ControlPlane
from konverge_testing.failures import BinariesMissing

DEFINITION = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)

pytestmark = pytest.mark.timeout(90, func_only=True)  # a build in the first test has its own limit


@pytest.fixture(scope="module", params=sorted(other_languages.RECIPES))
def language(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def build(language: str, request: pytest.FixtureRequest) -> Path:
    """The folder of a language's build; a test is skipped with one line if the build is impossible on this machine."""
    return built_or_skipped(language, request.config)


@pytest.fixture(params=["memory", pytest.param("control-plane", marks=pytest.mark.control_plane)])
async def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    if request.param == "control-plane":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        yield plane.kubeconfig
        async with Client(await ClientConfig.from_kubeconfig(plane.kubeconfig), name="t") as client:
            await gone(client)
        return
    async with served(tmp_path / "kubeconfig") as server:
        yield server.kubeconfig


async def gone(client: Client) -> None:
    """Wait until the definition that every example creates has been removed."""
    async with asyncio.timeout(60):
        with contextlib.suppress(NotFound):
            while True:
                await client.get(DEFINITION, "widgets.example.com")
                await asyncio.sleep(0.05)


def command(language: str, build: Path, folder: Path) -> tuple[list[str], Path]:
    """The command that runs an example, and where."""
    if language != "javascript":
        return [str(build / "program")], EXAMPLES / language
    copy = folder / "examples"
    shutil.copytree(EXAMPLES, copy)
    (copy / "javascript" / "node_modules").symlink_to(build / "node_modules")
    return ["node", "--test"], copy / "javascript"


async def test_a_client_in_another_language_creates_watches_applies_and_deletes(
    language: str, build: Path, kubeconfig: Path, tmp_path: Path
) -> None:
    words, folder = command(language, build, tmp_path)
    # Nothing of the caller's, which could name a proxy or another cluster.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(kubeconfig),
        "USE_EXISTING_CLUSTER": "true",
    }
    process = await asyncio.create_subprocess_exec(*words, cwd=folder, env=environment, stdout=PIPE, stderr=STDOUT)
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


@pytest.mark.parametrize("name", other_languages.ALL)
def test_a_missing_toolchain_is_named(name: str, tmp_path: Path) -> None:
    tool = other_languages.ALL[name].tool
    with pytest.raises(BinariesMissing, match=rf"{name} needs {tool}, and PATH has no {tool}"):
        other_languages.built(name, {"PATH": str(tmp_path), CACHE_VARIABLE: str(tmp_path)}, tell=print)


def test_locked_dependencies_name_no_registry_but_the_public_index_of_crates() -> None:
    """Each client's own configuration names its package source."""
    lock = (EXAMPLES / "rust" / "Cargo.lock").read_text()
    assert {line for line in lock.splitlines() if line.startswith("source")} == {
        'source = "registry+https://github.com/rust-lang/crates.io-index"'
    }
    for name in ("javascript", "nstance-on-grpc-js"):
        assert '"resolved"' not in (other_languages.ALL[name].folder(name) / "package-lock.json").read_text()
