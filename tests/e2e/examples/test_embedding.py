"""The embedding programs under examples/ run unchanged."""

import asyncio
from typing import Any

import backup_operator
import pytest
from example_programs import EXAMPLES, program

import konverge as kv
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.kinds import kind
from konverge_testing import ControlPlane, Lab, install_crds

pytestmark = pytest.mark.control_plane

SECRET = kind("v1", "Secret")


@pytest.fixture
async def cluster(lab: Lab, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The environment of the programs: $KUBECONFIG, the CRD, a Secret to copy to."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    await install_crds(lab.client, [crd(backup_operator.Backup)])
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    return lab


async def backs_up(lab: Lab, name: str = "nightly") -> None:
    await lab.create(backup_operator.Backup.new(name, spec=backup_operator.BackupSpec(schedule="0 3 * * *")))
    await lab.until(backup_operator.Backup, name, kv.is_true("Ready"))


async def test_a_manager_lives_and_ends_with_a_fastapi_application(cluster: Lab) -> None:
    import embed_fastapi
    from fastapi import Response

    async with embed_fastapi.lifespan(embed_fastapi.app):
        await backs_up(cluster)
        response = Response()
        told = await embed_fastapi.readyz(response)
        assert response.status_code == 200
        assert told["backup"]["ready"] is True
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("konverge")]


async def test_a_manager_lives_and_ends_with_a_kopf_operator(cluster: Lab) -> None:
    async with program("-m", "kopf", "run", "embed_kopf.py", "--namespace", cluster.namespace, "--standalone") as kopf:
        await backs_up(cluster)
        assert kopf.returncode is None
    assert kopf.returncode == 0


async def test_one_family_runs_inside_another_operator(cluster: Lab) -> None:
    await install_crds(cluster.client, [crd(ApplicationInstance)])
    async with program("embed_family.py") as operator:
        await backs_up(cluster)
        assert operator.returncode is None
    assert operator.returncode is not None


def test_every_example_is_run_by_a_test() -> None:
    tested: dict[str, Any] = {
        "backup_admission": "tests/unit/runtime/admission/test_guide.py",
        "backup_operator": "tests/e2e/runtime/test_backup_operator.py",
        "dump_database": "tests/unit/runtime/test_guide_examples.py",
        "embed_family": __file__,
        "embed_fastapi": __file__,
        "embed_kopf": __file__,
        "fleet_operator": "tests/unit/runtime/test_guide_examples.py",
        "host_operator": "tests/unit/planning/test_guide.py",
        "howto_adopt": "tests/unit/runtime/test_guide_examples.py",
        "howto_child_ready": "tests/unit/runtime/test_guide_examples.py",
        "howto_every_night": "tests/unit/runtime/test_guide_examples.py",
        "howto_http_session": "tests/unit/runtime/test_guide_examples.py",
        "howto_live_secret": "tests/unit/runtime/test_guide_examples.py",
        "howto_other_namespace": "tests/unit/runtime/test_guide_examples.py",
        "howto_rate": "tests/unit/runtime/test_guide_examples.py",
        "howto_rename_field": "tests/unit/runtime/test_guide_examples.py",
        "howto_shared_config": "tests/unit/runtime/test_guide_examples.py",
        "howto_side_by_side": "tests/unit/runtime/test_guide_examples.py",
        "howto_spec_changed": "tests/unit/runtime/test_guide_examples.py",
        "howto_terminal": "tests/unit/runtime/test_guide_examples.py",
        "howto_two_statuses": "tests/unit/runtime/test_guide_examples.py",
        "invoices": "testkit/tests/scenarios/lab/test_guide.py",
        "leave_kopf": "tests/e2e/examples/test_moving.py",
        "leave_kubebuilder": "tests/e2e/examples/test_moving.py",
        "mirror_operator": "tests/unit/runtime/admission/test_guide.py",
        "page_kopf": "tests/e2e/examples/test_moving.py",
        "page_operator": "tests/e2e/examples/test_moving.py",
        "render_operator": "tests/unit/runtime/test_guide_examples.py",
        "queue_operator": "testkit/tests/unit/replay/test_guide.py",
        "replace_pods": "tests/unit/runtime/test_guide_examples.py",
        "report_models": "tests/unit/runtime/test_guide_examples.py",
        "report_operator": "tests/unit/runtime/test_guide_examples.py",
        "runner_operator": "testkit/tests/unit/kit/test_documents.py",
        "shared_workspaces": "tests/e2e/examples/test_shared_workspaces.py",
        "site_operator": "testkit/tests/scenarios/lab/test_site_operator.py",
        "stock_operator": "tests/unit/runtime/test_guide_examples.py",
        "team_operator": "testkit/tests/scenarios/lab/test_team_operator.py",
        "test_backup_admission": "tests/unit/runtime/admission/test_guide.py",
        "test_dump_database": "tests/unit/runtime/test_guide_examples.py",
        "test_fleet": "tests/unit/runtime/test_guide_examples.py",
        "test_host_plan": "tests/unit/planning/test_guide.py",
        "test_howto": "tests/unit/runtime/test_guide_examples.py",
        "test_howto_deletion": "tests/unit/runtime/test_guide_examples.py",
        "test_invoices": "testkit/tests/scenarios/lab/test_guide.py",
        "test_leave_kubebuilder": "tests/unit/runtime/test_guide_examples.py",
        "test_mirror_operator": "tests/unit/runtime/admission/test_guide.py",
        "test_page": "tests/unit/runtime/test_guide_examples.py",
        "test_render": "tests/unit/runtime/test_guide_examples.py",
        "test_queue_recorded": "testkit/tests/unit/replay/test_guide.py",
        "test_replace_pods": "tests/unit/runtime/test_guide_examples.py",
        "test_report": "tests/unit/runtime/test_guide_examples.py",
        "test_report_models": "tests/e2e/test_models.py",
        "test_runner": "testkit/tests/unit/kit/test_documents.py",
        "test_stock": "tests/unit/runtime/test_guide_examples.py",
        "test_team": "testkit/tests/unit/kit/test_documents.py",
        "test_traced": "tests/unit/runtime/test_guide_examples.py",
        "traced_operator": "tests/unit/runtime/test_guide_examples.py",
        "tutorial": "testkit/tests/scenarios/lab/test_cronjob.py",
        "website": "testkit/tests/scenarios/lab/test_website.py",
    }
    programs = [*EXAMPLES.glob("*.py"), *(init.parent for init in EXAMPLES.glob("*/__init__.py"))]
    assert sorted(path.stem for path in programs) == sorted(tested)
