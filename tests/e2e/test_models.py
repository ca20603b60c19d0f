"""`konverge models` on a real API server: its documents give the models that the in-memory server's documents give, with descriptions."""

import ast
import asyncio
import copy
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from test_report_models import test_the_models_are_as_in_the_api

from konverge.crds.foreign.documents import ForeignKind
from konverge.crds.foreign.drift import differences
from konverge.crds.foreign.rendering import generated
from konverge.daemon.models import cluster_kinds
from konverge.errors import ApiError
from konverge.kinds import Kind
from konverge_testing import ControlPlane, Lab
from konverge_testing.memory_server import ApiServer

__all__ = ["test_the_models_are_as_in_the_api"]

pytestmark = pytest.mark.control_plane

EXAMPLE = Path(__file__).parents[2] / "examples" / "report_models.py"
VERSIONS = (
    "v1",
    "apps/v1",
    "batch/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "networking.k8s.io/v1",
    "apiextensions.k8s.io/v1",
)


async def konverge(*words: str, kubeconfig: Path, folder: Path) -> tuple[int, str]:
    """Run a command until it exits; returns its exit code and its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", *words),
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_the_example_is_written_and_checked_on_a_real_server(control_plane: ControlPlane, tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    module = tmp_path / EXAMPLE.name
    module.write_text(text)
    run = {"kubeconfig": control_plane.kubeconfig, "folder": tmp_path}
    assert await konverge("models", "-o", module.name, "--check", **run) == (0, "report_models.py: as in the API\n")
    module.write_text(text.replace("succeeded: int", "succeeded: str"))
    code, output = await konverge("models", "-o", module.name, "--check", **run)
    assert (code, output.splitlines()[1:]) == (1, ["  JobStatus.succeeded: str | None = None is now int | None = None"])
    assert await konverge("models", "-o", module.name, **run) == (0, "report_models.py: 6 classes\n")
    written = module.read_text()
    assert differences(text, written) == []
    docstrings = [ast.get_docstring(node) for node in ast.parse(written).body if isinstance(node, ast.ClassDef)]
    assert all(docstrings), "a real server describes every kind"
    assert len(written) < 3 * len(text), "a description is a sentence"


async def test_models_of_the_server_in_memory_are_those_of_a_real_server(lab: Lab) -> None:
    real = await cluster_kinds(lab.client, VERSIONS)
    memory = await memory_kinds({(each.api_version, each.kind) for each in real})
    assert len(memory) > 20
    names = {(each.api_version, each.kind) for each in memory}
    kept = [each for each in real if (each.api_version, each.kind) in names]
    assert differences(generated(kept), generated(memory)) == []


async def memory_kinds(names: set[tuple[str, str]]) -> list[ForeignKind]:
    """Return the kinds of these names as the server in memory publishes them."""
    from konverge.client import Client

    async with ApiServer() as server, Client(server.config(), name="test") as client:
        return [each for each in await cluster_kinds(client, VERSIONS) if (each.api_version, each.kind) in names]


async def test_stored_objects_of_every_kind_survive_a_round_trip(lab: Lab) -> None:
    kinds = [each for each in await cluster_kinds(lab.client, VERSIONS) if each.plural is not None]
    module = sys.modules["generated_for_e2e"] = ModuleType("generated_for_e2e")
    exec(compile(generated(kinds), module.__name__, "exec"), module.__dict__)
    number = 0
    for kind in [value for value in vars(module).values() if isinstance(value, Kind)]:
        path = f"/{'apis' if kind.group else 'api'}/{kind.api_version}/{kind.plural}"
        try:
            found: dict[str, Any] = msgspec.json.decode(await lab.client.raw("GET", path))
        except ApiError:  # a kind that cannot be listed, as Binding
            continue
        for item in found["items"]:
            item.update(apiVersion=kind.api_version, kind=kind.kind)
            assert kind.decode(copy.deepcopy(item)).to_dict() == item
            number += 1
    assert number > 10
