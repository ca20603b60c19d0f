"""`--lab-on=kubeconfig`: the test of the face, run by pytest on a cluster that a kubeconfig names."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from konverge.client import Client
from konverge.kinds import kind

pytestmark = pytest.mark.control_plane

NAMESPACE = kind("v1", "Namespace", namespaced=False)
TEST = "testkit/tests/scenarios/lab/test_face.py::test_a_backup_waits_for_its_secret"


async def test_public_api_scenario_runs_on_a_cluster_and_leaves_no_namespace(
    admin: Client, admin_kubeconfig: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            TEST,
            "--lab-on=kubeconfig",
            "--lab-install-crds",
        ),
        cwd=Path(__file__).parents[3],
        env={**os.environ, "KUBECONFIG": str(admin_kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(90):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "1 passed" in said.decode()
    left = [
        found.name
        for found in await admin.list(NAMESPACE, labels="konverge.dev/lab=true")
        if not found.metadata.deleting
    ]
    assert left == []
