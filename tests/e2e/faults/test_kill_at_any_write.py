"""kill -9 of an operator at any write, and a new process: the end state is the same, nothing is lost, nothing is created twice.

For every n a proxy ends the process at write n: for odd n before the write reaches the API server, for even n after it is stored and before
its response arrives. The lab does both at every write, in memory. A crash between two writes of a reconcile is the first kind of bug that
fault injection finds in controllers (Sieve, OSDI '22).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import backup_operator
import faulty_operator
import pytest
import pytest_asyncio
from backup_operator import Backup, BackupSpec
from crashes import Crashes, Run, Story
from faulty_operator import Memo, MemoSpec
from forkserver import ForkServer
from patience import PATIENCE

import konverge as kv
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind, kind_of
from konverge.reconcilers import apps
from konverge.reconcilers.apps.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.clients import ClientFor
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.proxy import Moment

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(300)]

CRON_JOB = kind("batch/v1", "CronJob")
CONFIG_MAP = kind("v1", "ConfigMap")
SECRET = kind("v1", "Secret")


def moment_of(number: int) -> Moment:
    """Return when the process is killed at its write of this number; the two moments alternate."""
    return "before" if number % 2 else "after"


@dataclass(frozen=True)
class Stage:
    """Everything that a test needs to play stories."""

    lab: Lab
    plane: ControlPlane
    client_for: ClientFor
    directory: Path
    forkserver: ForkServer

    async def crashes(self, story: Story, build: Callable[[kv.Manager], None], *, patience: float = 60.0) -> Crashes:
        """Return the player of a story, with exactly the rights that `konverge rbac` prints for these controllers."""
        planned = kv.Manager("rules")
        build(planned)
        await self.client_for("operator", cluster_rules=[rule.to_dict() for rule in planned.rules()])
        return Crashes(
            story,
            plane=self.plane,
            lab=lambda namespace: Lab(self.lab.client, self.lab.config, namespace, patience=PATIENCE),
            token=await self.plane.service_account_token(self.lab.namespace, "operator"),
            directory=self.directory,
            forkserver=self.forkserver,
            prefix=f"crash-{self.lab.namespace.rpartition('-')[2]}",
            patience=patience,
        )


@pytest_asyncio.fixture
async def stage(lab: Lab, control_plane: ControlPlane, client_for: ClientFor, tmp_path: Path) -> AsyncIterator[Stage]:
    async with ForkServer() as forkserver:
        yield Stage(lab, control_plane, client_for, tmp_path, forkserver)


async def every_write(crashes: Crashes, reference: Run) -> list[Run]:
    """Kill at writes 1, 2, 3, ... until a story has fewer writes than that; returns the runs with a kill."""
    runs = await asyncio.gather(
        *(crashes.killed(number, moment_of(number), reference) for number in range(1, len(reference.writes) + 1))
    )
    while runs[-1].struck:
        number = len(runs) + 1
        runs.append(await crashes.killed(number, moment_of(number), reference))
    return [run for run in runs if run.struck]


# --- the operator of the README -------------------------------------------------------------------------------------------------


async def order_a_backup(lab: Lab) -> None:
    await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
    await lab.until(Backup, "nightly", kv.is_false("Ready"), timeout=60)


async def give_it_a_target(lab: Lab) -> None:
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    await lab.until(Backup, "nightly", kv.is_true("Ready"), timeout=60)


async def change_its_schedule(lab: Lab) -> None:
    await lab.patch(Backup, "nightly", {"spec": {"schedule": "0 4 * * *", "keepCopies": 3}})
    await lab.until(CRON_JOB, "nightly", lambda job: job.spec["schedule"] == "0 4 * * *", timeout=60)


BACKUPS = Story(
    acts=(order_a_backup, give_it_a_target, change_its_schedule),
    kinds=(kind_of(Backup), CRON_JOB),
    arguments=("examples/backup_operator.py:build", "--name", "backup-operator"),
)


async def test_the_backup_operator_may_be_killed_at_any_write(stage: Stage) -> None:
    await install_crds(stage.lab.client, [crd(Backup)])
    crashes = await stage.crashes(BACKUPS, backup_operator.build)
    reference = await crashes.undisturbed()
    assert reference.created == {"Backup/nightly": 1, "CronJob/nightly": 1}
    runs = await every_write(crashes, reference)
    assert len(runs) >= len(reference.writes) >= 5
    assert reference.events == {"SecretMissing": 1, "Scheduled": 1}
    for run in runs:
        assert run.starts == 2
        assert run.created == reference.created, f"killed at {run.struck}"
        # An Event is sent after the status that it reports: a crash between the two may lose the Event, and never duplicates it.
        assert run.events <= reference.events, f"killed at {run.struck}"


# --- an ApplicationInstance, with the stand-in for Flux -------------------------------------------------------------------------


def rolled_out(version: str) -> Callable[[ApplicationInstance], bool]:
    def test(instance: ApplicationInstance) -> bool:
        chart, ready = instance.status.last_applied_chart, instance.find_condition("Ready")
        reported = ready is not None and ready.is_true and ready.observed_generation == instance.generation
        return reported and chart is not None and chart.version == version

    return test


async def install_the_shop(lab: Lab) -> None:
    await lab.create(SECRET.new("values", data={"values.yaml": base64.b64encode(b"replicas: 1").decode()}))
    spec = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}},
    }
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    await lab.until(ApplicationInstance, "shop", rolled_out("1.0.0"), timeout=60)


async def upgrade_the_shop(lab: Lab) -> None:
    await lab.patch(ApplicationInstance, "shop", {"spec": {"chart": {"version": "1.1.0"}}})
    await lab.until(ApplicationInstance, "shop", rolled_out("1.1.0"), timeout=60)


async def remove_the_shop(lab: Lab) -> None:
    await lab.delete(ApplicationInstance, "shop")
    await lab.until_gone(ApplicationInstance, "shop", timeout=60)


SHOP = Story(
    acts=(install_the_shop, upgrade_the_shop, remove_the_shop),
    kinds=(kind_of(ApplicationInstance), HELM_RELEASE, HELM_REPOSITORY, HELM_CHART),
)


async def test_the_daemon_may_be_killed_at_any_write_of_an_application(stage: Stage) -> None:
    await install_crds(stage.lab.client, [crd(ApplicationInstance), crd(Operation), *flux_crds()])
    crashes = await stage.crashes(SHOP, apps.install)
    async with HelmController(stage.lab.config):
        reference = await crashes.undisturbed()
        runs = await every_write(crashes, reference)
    assert set(reference.created.values()) == {1}
    assert len(reference.created) == len(SHOP.kinds)
    assert reference.pictures[-1] == {}, "something was left behind"
    # Statuses in quick succession may be one write or two, depending on the speed of the cluster.
    assert len(runs) >= len(reference.writes) - 2 >= 8
    for run in runs:
        assert run.starts == 2
        assert run.created == reference.created, f"killed at {run.struck}"


# --- planted mistakes are found --------------------------------------------------------------------------------------------------


def keep_a_memo(mistake: str) -> Story:
    async def keep(lab: Lab) -> None:
        await lab.create(Memo.new("memo", spec=MemoSpec(mistake=mistake)))
        await lab.until(Memo, "memo", kv.is_true("Ready"), timeout=60)

    target = str(Path(faulty_operator.__file__))
    return Story(acts=(keep,), kinds=(kind_of(Memo), CONFIG_MAP), arguments=(f"{target}:build", "--name", "faulty"))


async def test_an_operator_that_notes_before_it_does_is_found(stage: Stage) -> None:
    await install_crds(stage.lab.client, [crd(Memo)])
    crashes = await stage.crashes(keep_a_memo("forgetful"), faulty_operator.build, patience=3.0)
    reference = await crashes.undisturbed()
    assert [write.rpartition("/")[2] for write in reference.writes] == ["memo", "memo", "status"]
    assert (await crashes.killed(1, "before", reference)).created == reference.created
    lost = (crashes.killed(1, "after", reference), crashes.killed(2, "before", reference))
    for found in await asyncio.gather(*lost, return_exceptions=True):
        assert isinstance(found, AssertionError)
        assert "ConfigMap/memo: None instead of" in str(found)


async def test_an_operator_that_makes_things_twice_is_found(stage: Stage) -> None:
    await install_crds(stage.lab.client, [crd(Memo)])
    crashes = await stage.crashes(keep_a_memo("repeating"), faulty_operator.build)
    reference = await crashes.undisturbed()
    last = len(reference.writes)
    assert (await crashes.killed(1, "before", reference)).created == reference.created
    assert (await crashes.killed(last, "before", reference)).created["ConfigMap/memo"] == 2
