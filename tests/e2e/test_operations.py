"""Operations on a real control plane: Jobs run on its Job controller, deletions on its garbage collector, and the hold on a target is a
real compare-and-swap. The rows of docs/reference/operations.md#rows, with the stand-ins for Velero and Flux.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from apps.engine_shop import KINDS, EngineShop, in_phase
from apps.kubelet import POD, Kubelet
from apps.lab import READY, WITH_OPERATIONS, Apps
from apps.operations import FREE, JOB, JOBS_FOR_ALL, has_object, phase, shows

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.reconcilers.apps.operations import reconciler
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.running import act, give_up
from konverge.reconcilers.apps.operations.running import decide as running
from konverge.reconcilers.apps.operations.waiting.turns import LEASE, holders_of, lease_name
from konverge.runtime import ManagerSettings
from konverge.runtime.builder.rules import rules_of
from konverge_testing import Lab, install_crds
from konverge_testing.clients import ClientFor

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(150)]

ROLE = kind("rbac.authorization.k8s.io/v1", "Role", namespaced=True, plural="roles")
ROLE_BINDING = kind("rbac.authorization.k8s.io/v1", "RoleBinding", namespaced=True, plural="rolebindings")
SUCCEEDED = phase("Succeeded")
WAITS = shows("Blocked", "True", "ConflictingOperation")


@pytest_asyncio.fixture
async def ops(lab: Lab) -> Kubelet:
    ops = Kubelet(lab)
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    return ops


@pytest_asyncio.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield EngineShop(lab, stack)


async def jobs(lab: Lab) -> set[str]:
    """Return the Operations that have a Job."""
    found = await lab.client.list(JOB, lab.namespace)
    return {job.metadata.annotation("ops.vworkspace.io/operation-name").rpartition("/")[2] for job in found}


async def look_again(lab: Lab, *controllers: str) -> None:
    for _ in range(2):
        for name in controllers or ("operation",):
            lab.manager.runner(name).resync_now()
        await lab.settled()


async def test_x1_a_restore_waits_for_a_running_backup_and_starts_by_itself(ops: Kubelet) -> None:
    await ops.create("backup", "Backup")
    await ops.run_job("backup")
    await ops.create("restore", "Restore")
    waits = await ops.until("restore", phase("Pending"), WAITS)
    await look_again(ops.lab)
    assert (await ops.get("restore")).metadata.resource_version == waits.metadata.resource_version
    assert (await ops.get("backup")).status.phase == "Running"
    assert await jobs(ops.lab) == {"backup"}
    await ops.complete("backup")
    await ops.run_job("restore")
    await ops.complete("restore")


async def test_x2_operation_never_leaves_a_terminal_phase_or_calls_its_engine_again(ops: Kubelet) -> None:
    await ops.create("backup", "Backup")
    await ops.run_job("backup")
    done = await ops.complete("backup")
    await ops.create("restore", "Restore")
    await ops.run_job("restore")
    await ops.lab.delete(JOB, (await ops.job_of("backup")).name)
    await ops.lab.until_gone(JOB, (done.status.engine_ref or pytest.fail("no object")).name)
    await ops.lab.stop()
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.lab.delete(ApplicationInstance, "shop")
    await ops.lab.until_gone(ApplicationInstance, "shop")
    await look_again(ops.lab)
    assert (await ops.get("backup")).metadata.resource_version == done.metadata.resource_version
    assert await jobs(ops.lab) == {"restore"}
    assert (await ops.get("restore")).status.phase == "Running"


async def test_x4_a_backup_outlives_its_operation_deleted_or_expired(shop: EngineShop) -> None:
    await shop.open()
    expired = await shop.create("expired", "Backup", "velero", parameters={}, ttlSecondsAfterFinished=1)
    await shop.lab.until_gone(Operation, "expired", timeout=60)
    deleted = await shop.backup("deleted")
    await shop.until("deleted", SUCCEEDED)
    await shop.lab.delete(Operation, "deleted")
    await shop.lab.until_gone(Operation, "deleted")
    await shop.lab.settled()
    for made in (expired, deleted):
        backup = await shop.lab.get(KINDS["Backup"], f"op-{made.metadata.uid}")
        assert backup.get("status", "phase") == "Completed"
        assert not backup.metadata.deleting
        assert not backup.get("metadata", "ownerReferences"), "the garbage collector would delete it"


async def test_x5_two_namespaces_with_one_operation_name_have_two_backups(shop: EngineShop) -> None:
    await shop.open(everywhere=True)
    lab, other = shop.lab, f"{shop.lab.namespace}-other"
    await lab.namespace_also(other)
    try:
        first = await shop.backup("nightly")
        twin = (await lab.get(ApplicationInstance, "shop")).to_dict()
        twin["metadata"] = {"name": "shop", "namespace": other, "annotations": twin["metadata"]["annotations"]}
        await lab.client.create(ApplicationInstance.decode(twin))
        operation = {"metadata": {"name": "nightly", "namespace": other}, "spec": first.to_dict()["spec"]}
        second = await lab.client.create(Operation.decode(operation))
        backups = [
            await lab.until(KINDS["Backup"], f"op-{made.metadata.uid}", in_phase("Completed"), timeout=60)
            for made in (first, second)
        ]
        assert [made.get("spec", "includedNamespaces") for made in backups] == [[lab.namespace], [other]]
        assert len({made.metadata.uid for made in backups}) == 2
        await lab.client.delete(Operation, "nightly", other)
        await look_again(lab)
        kept = [await lab.get(KINDS["Backup"], made.name) for made in backups]
        assert [made.metadata.deleting for made in kept] == [False, False]
    finally:
        await lab.client.delete(kind("v1", "Namespace", namespaced=False), other)


async def test_x7_the_version_stays_where_an_upgrade_brought_it(lab: Lab) -> None:
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(WITH_OPERATIONS)
        await apps.create()
        offered = {"metadata": {"annotations": {"ops.vworkspace.io/upgrade": "helm"}}}
        await lab.patch(ApplicationInstance, "shop", offered)
        await apps.until(READY)
        target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
        given = {"targetRef": target, "type": "Upgrade", "engine": "helm", "parameters": {"targetVersion": "1.1.0"}}
        await lab.create(Operation.decode({"metadata": {"name": "up"}, "spec": given}))
        done = await lab.until(Operation, "up", SUCCEEDED, timeout=60)
        assert done.status.outputs == {"fromVersion": "1.0.0", "toVersion": "1.1.0", "revision": "2"}
        await look_again(lab, "applicationinstance", "operation")
        instance = await apps.until(READY)
        assert instance.spec.chart is not None
        assert instance.spec.chart.version == "1.1.0"
        assert (await apps.release()).get("spec", "chart", "spec", "version") == "1.1.0"
        assert (await lab.get(Operation, "up")).metadata.resource_version == done.metadata.resource_version


ENDS = {"cancel": ("Cancelled", "UserCancelled"), "timeout": ("Failed", "Timeout"), "delete": ("", "")}


@pytest.mark.parametrize("by", ENDS)
async def test_cancelled_job_ends_with_its_pod_before_the_next_operation_starts(ops: Kubelet, by: str) -> None:
    """The Job controller suspends the Job and deletes its pod; the Operation ends only after the kubelet has stopped the pod."""
    lab = ops.lab
    limits: dict[str, Any] = {"timeoutSeconds": 10} if by == "timeout" else {}
    await ops.create("run", "Upgrade", **limits)
    pod = await ops.bind("run")
    await ops.run_job("run")
    await ops.create("next", "Restore")
    await ops.until("next", WAITS)
    if by == "cancel":
        await lab.patch(Operation, "run", {"spec": {"cancel": True}})
    elif by == "delete":
        await lab.delete(Operation, "run")
    await lab.until(POD, pod, lambda found: found.metadata.deleting, timeout=30)
    await look_again(lab)
    stopping = await ops.get("run")
    assert not stopping.finished, "its pod still runs"
    assert shows("Running", "True", "Stopping")(stopping)
    assert await jobs(lab) == {"run"}
    await ops.killed(pod)
    if by == "delete":
        await lab.until_gone(Operation, "run")
    else:
        wanted, reason = ENDS[by]
        await ops.until("run", phase(wanted), shows(wanted, "True", reason))
        job = await ops.job_of("run")
        assert (job.get("spec", "suspend"), job.get("status", "failed")) == (True, None)
    await ops.run_job("next")
    await ops.complete("next")


async def test_job_with_failing_pods_fails_its_operation_after_the_last_attempt(ops: Kubelet) -> None:
    await ops.create("run", parameters={"image": "busybox", "backoffLimit": 0})
    await ops.bind("run")
    await ops.run_job("run")
    await ops.crash("run")
    failed = await ops.until("run", phase("Failed"), shows("Failed", "True", "BackoffLimitExceeded"))
    assert "backoff limit" in failed.condition("Failed").message
    assert failed.status.outputs == {"jobName": (await ops.job_of("run")).name}


async def test_job_past_its_deadline_fails_its_operation_after_its_pod_ended(ops: Kubelet) -> None:
    await ops.create("run", parameters={"image": "busybox", "activeDeadlineSeconds": 5})
    pod = await ops.bind("run")
    await ops.run_job("run")
    await ops.until("run", shows("Running", "True", "Failing"))
    assert not (await ops.get("run")).finished
    await ops.killed(pod)
    await ops.until("run", phase("Failed"), shows("Failed", "True", "DeadlineExceeded"))


async def test_x11_only_one_of_several_conflicting_operations_runs_at_a_time(ops: Kubelet) -> None:
    lab, kinds = ops.lab, ("Restore", "Upgrade", "Migration", "Restore", "Upgrade", "Restore")

    async def create(number: int, type_: str) -> Operation:
        async with Client(lab.config, name=f"client-{number}", random=Random(number)) as client:
            target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
            spec = {"targetRef": target, "type": type_, "engine": "job", "parameters": {"image": "busybox"}}
            name = {"name": f"op-{number}", "namespace": lab.namespace}
            return await client.create(Operation.decode({"metadata": name, "spec": spec}))

    made = await asyncio.gather(*(create(number, type_) for number, type_ in enumerate(kinds)))
    ended: list[Operation] = []
    async with asyncio.timeout(lab.limit(30)):
        while len(ended) < len(made):
            await lab.settled()
            at_work = await jobs(lab) - {one.name for one in ended}
            assert len(at_work) <= 1, f"{sorted(at_work)} were at work at once"
            for name in at_work:
                ended.append(await ops.complete(name))
    assert {one.name for one in ended} == {one.name for one in made}
    for before, after in pairwise(ended):
        assert str(before.status.finished_at) <= str(after.status.started_at)
    assert len(list(await lab.client.list(JOB, lab.namespace))) == len(made)


@pytest.mark.parametrize("verb", ["create", "get"])
async def test_operation_without_job_rights_releases_its_lease_and_starts_once_granted(
    lab: Lab, client_for: ClientFor, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server's error names the missing right, and its list and dry run show which objects exist; the times are shorter here."""
    monkeypatch.setattr(give_up, "_IN_FLIGHT", timedelta(seconds=3))
    for module in (act, running, reconciler):
        monkeypatch.setattr(module, "LOOK_AGAIN", timedelta(seconds=2))
    ops = Kubelet(lab)
    await ops.create_account()
    await install_crds(lab.client, [crd(Operation), crd(ApplicationInstance)])
    described = controller(FREE, rows=JOBS_FOR_ALL)
    granted = [rule.to_dict() for rule in rules_of(described)]
    for rule in granted:
        if "jobs" in rule["resources"]:
            rule["verbs"] = [one for one in rule["verbs"] if one != verb]
    account = await client_for("operator", rules=granted)
    await lab.start(
        lambda manager: manager.add(described),
        name="konverge",
        crds=False,
        config=account.config,
        settings=ManagerSettings(namespace=lab.namespace, strict=True),
    )
    await ops.target()
    await ops.create("run", "Restore")
    lacking = shows("Blocked", "True", "RbacProfileMissing")
    found = await lab.until(Operation, "run", lacking, timeout=30)
    assert f"lacks the right to {verb} jobs of API group batch" in found.condition("Blocked").message
    back = await lab.until(Operation, "run", lambda one: lacking(one) and one.status.started_at is None, timeout=100)
    assert back.status.engine_ref is None
    assert "run" not in [
        one.name for one in holders_of(await lab.get(LEASE, lease_name(lab.namespace), account.config.namespace))
    ]
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [verb]}
    await lab.create(ROLE.new("later", rules=[rule]))
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": lab.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "later"}
    await lab.create(ROLE_BINDING.new("later", subjects=[subject], roleRef=role))
    await lab.until(Operation, "run", has_object, timeout=60)
    assert await jobs(lab) == {"run"}
