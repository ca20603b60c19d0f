"""`konverge plan` on a real control plane: the audit log shows that nothing is stored, and its rights are the operator's."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from audit import audited

import konverge as kv
from konverge.client import Client, ClientConfig
from konverge_testing import ControlPlane

pytestmark = pytest.mark.control_plane

EXAMPLES = Path(__file__).parents[2] / "examples"
BACKUP, CRON_JOB = kv.kind("example.com/v1", "Backup"), kv.kind("batch/v1", "CronJob")
SECRET, EVENT = kv.kind("v1", "Secret"), kv.kind("events.k8s.io/v1", "Event")


async def konverge(*words: str, kubeconfig: Path) -> tuple[int, str]:
    """Run a command until it exits; returns its exit code and its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", *words),
        cwd=EXAMPLES,
        env={**clean, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@pytest.fixture
async def namespace(audited_plane: ControlPlane) -> str:
    name = "planned"
    await audited_plane.create_namespace(name)
    return name


@pytest.fixture
async def admin(audited_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(await ClientConfig.from_kubeconfig(audited_plane.kubeconfig), name="test-admin") as client:
        yield client


@pytest.fixture
async def operator(audited_plane: ControlPlane, namespace: str) -> Path:
    """The kubeconfig of a ServiceAccount with the rights that `konverge rbac` prints for the operator."""
    admin_kubeconfig = audited_plane.kubeconfig
    await konverge("crds", "backup_operator:build", "--apply", kubeconfig=admin_kubeconfig)
    account = ("-n", namespace, "--service-account", f"{namespace}/operator")
    kubeconfig = await audited_plane.service_account_kubeconfig(namespace, "operator")
    _, manifests = await konverge("rbac", "backup_operator:build", *account, kubeconfig=admin_kubeconfig)
    await audited_plane.kubectl("apply", "-f", "-", stdin=manifests)
    return kubeconfig


async def test_a_plan_with_the_operators_rights_stores_nothing(
    audited_plane: ControlPlane, admin: Client, operator: Path, namespace: str
) -> None:
    await admin.create(SECRET.new("target", namespace, data={"url": "czM6Ly9i"}))
    await admin.create(BACKUP.new("nightly", namespace, spec={"schedule": "0 3 * * *"}))
    before = await admin.get(BACKUP, "nightly", namespace)
    plan = ("plan", "backup_operator:build", "--set", f"namespace={namespace}", "--detailed-exitcode", "-o", "json")
    code, output = await konverge(*plan, kubeconfig=operator)
    assert code == 2, output
    report: dict[str, Any] = json.loads(output)
    assert [(change["action"], change["kind"]) for change in report["changes"]] == [
        ("create", "CronJob"),
        ("update", "Backup"),
    ]
    assert [event["reason"] for event in report["events"]] == ["Scheduled"]
    assert report["failed"] == []

    assert await admin.get(BACKUP, "nightly", namespace) == before
    assert await admin.find(CRON_JOB, "nightly", namespace) is None
    assert [event for event in await admin.list(EVENT, namespace) if event.get("regarding", "name") == "nightly"] == []
    sent = audited(audited_plane, agent="backup-operator", namespace=namespace)
    writes = [each for each in sent if each.call.method != "GET"]
    assert {each.verb for each in writes} == {"patch"}
    assert all(each.call.query.get("dryRun") == "All" for each in writes)
    assert all(each.code < 400 or each.code == 404 for each in sent), sent
    assert not any(each.verb == "watch" for each in sent)
