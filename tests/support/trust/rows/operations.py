"""Attacks by Operations: Jobs, Workflows, backups and restores that act with larger rights than the tenant's."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import ATTACKER, VELERO, VICTIM
from trust.victim import APP, BACKUP, ENGINES, operation

from konverge.clock import wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Forbidden
from konverge.kinds import kind
from konverge.reconcilers.apps.operations.waiting.approval import claim_for
from konverge_testing.argo import KINDS as ARGO
from konverge_testing.velero import KINDS as VELERO_KINDS

JOB: Final = kind("batch/v1", "Job", namespaced=True, plural="jobs")
POD_SPEC: Final = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
ROLES: Final = (
    None,
    ["rolebindings.rbac.authorization.k8s.io"],
    ["rolebindings", "roles"],
    ["RoleBinding", "Role"],
    ["RoleBindings.rbac.authorization.k8s.io"],
    ["*"],
    ["*.rbac.authorization.k8s.io"],
    ["clusterrolebindings"],
    ["serviceaccounts", "secrets"],
)


async def target(here: Scene, name: str = "shop", **annotations: str) -> None:
    """Create an ApplicationInstance that offers every engine, and wait until it is ready."""
    spec = {**APP, "release": {"name": name, "namespace": ATTACKER}}
    metadata = {"name": name, "annotations": {**ENGINES, **annotations}}
    await here.mallory.create(ApplicationInstance, {"metadata": metadata, "spec": spec})
    await here.rest(30)


async def operate(here: Scene, name: str, spec: dict[str, Any], **metadata: Any) -> Operation:
    """Create an Operation as a tenant."""
    found = await here.mallory.create(Operation, {"metadata": {"name": name, **metadata}, "spec": spec})
    return Operation.decode(found.to_dict())


async def restore(here: Scene, name: str, parameters: dict[str, Any]) -> None:
    """Create a Restore with an approval that the tenant wrote itself."""
    made = await operate(here, name, operation("Restore", "velero", parameters=parameters))
    claim = claim_for(made, cluster="", expires=wall_clock() + timedelta(days=1))
    await here.mallory.patch(Operation, name, {"spec": {"approvals": {"claim": claim}}})


async def backed_up(here: Scene) -> str:
    """Return the name of a backup of the attacker's namespace."""
    await target(here)
    await operate(here, "backup", operation("Backup", "velero"))
    await here.rest(60)
    made = await here.admin.get(Operation, "backup", ATTACKER)
    return made.status.outputs["backupName"]


async def restore_roles(here: Scene) -> Sequence[str]:
    name = await backed_up(here)
    for number, included in enumerate(ROLES):
        parameters: dict[str, Any] = {"backupName": name, "existingResourcePolicy": "update"}
        if included is not None:
            parameters["includedResources"] = included
        await restore(here, f"restore-{number}", parameters)
    await here.rest(1200)
    return []


async def restore_of_victim(here: Scene) -> None:
    await target(here)
    victim = await here.admin.get(Operation, BACKUP, VICTIM)
    name = victim.status.outputs["backupName"]
    for number, mapping in enumerate(({}, {VICTIM: ATTACKER})):
        await restore(here, f"restore-{number}", {"backupName": name, "namespaceMapping": mapping})


async def restore_over_victim(here: Scene) -> None:
    name = await backed_up(here)
    for number, to in enumerate((VICTIM, "kube-system")):
        await restore(here, f"restore-{number}", {"backupName": name, "namespaceMapping": {ATTACKER: to}})


async def forged_backup(here: Scene) -> None:
    """Even a Backup in Velero's namespace that claims to belong to the attacker's Operation is restored within the attacker's namespace."""
    await target(here)
    namespace = await here.admin.get(kind("v1", "Namespace", namespaced=False, plural="namespaces"), ATTACKER)
    annotations = {
        "ops.vworkspace.io/operation-name": f"{ATTACKER}/backup",
        "ops.vworkspace.io/namespace-uid": namespace.metadata.uid,
    }
    spec = {"includedNamespaces": [VICTIM], "storageLocation": "default"}
    await here.admin.create(VELERO_KINDS["Backup"].new("forged", VELERO, annotations=annotations, spec=spec))
    await here.rest(30)
    here.judge.rebase()
    await restore(here, "restore", {"backupName": "forged"})


async def parameters_of_velero(here: Scene) -> None:
    await target(here)
    for number, more in enumerate(
        (
            {"includedNamespaces": [VICTIM]},
            {"includeClusterResources": True},
            {"includedResources": ["*", "namespaces", "customresourcedefinitions"]},
            {"storageLocation": "nobody"},
            {"labelSelector": {"matchLabels": {}}},
        )
    ):
        await operate(here, f"backup-{number}", operation("Backup", "velero", parameters=more))


async def parameters_of_job(here: Scene) -> None:
    await target(here)
    command = {"image": "busybox", "command": ["sh"]}
    cases: tuple[dict[str, Any], ...] = (
        {"serviceAccountName": "default"},
        {"serviceAccount": "cluster-installer"},
        {"namespace": VICTIM},
        {"hostPath": "/"},
        {"securityContext": {"privileged": True}},
        {"podSpec": {"hostNetwork": True}},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "values", "key": "values.yaml"}}}]},
    )
    for number, more in enumerate(cases):
        await operate(here, f"job-{number}", operation("RunCommand", "job", parameters={**command, **more}))


async def parameters_of_workflow(here: Scene) -> None:
    await target(here)
    await here.admin.create(ARGO["ClusterWorkflowTemplate"].new("platform", spec={}))
    await here.admin.create(ARGO["WorkflowTemplate"].new("theirs", VICTIM, spec={}))
    for number, more in enumerate(
        (
            {"workflowTemplate": "platform", "clusterScope": True, "serviceAccountName": "cluster-installer"},
            {"workflowTemplate": "platform", "clusterScope": True},
            {"workflowTemplate": "theirs"},
            {"workflowTemplate": "theirs", "namespace": VICTIM},
        )
    ):
        await operate(here, f"flow-{number}", operation("Runbook", "workflow", parameters=more))
    await here.rest()
    await here.admin.delete(ARGO["ClusterWorkflowTemplate"], "platform")
    await here.admin.delete(ARGO["WorkflowTemplate"], "theirs", VICTIM)


async def parameters_of_volsync(here: Scene) -> None:
    await target(here)
    for number, more in enumerate(
        (
            {"pvc": "data", "repository": {"secretName": "values"}},
            {"pvc": "data", "repository": {"secretName": "values", "namespace": VICTIM}},
        )
    ):
        await operate(here, f"copy-{number}", operation("Backup", "volsync", parameters=more))


async def target_of_victim(here: Scene) -> None:
    spec = operation("RunCommand", "job", parameters={"image": "busybox", "command": ["sh"]})
    for number, more in enumerate(({"namespace": VICTIM}, {})):
        reference = {**spec["targetRef"], **more}
        await operate(here, f"evil-{number}", {**spec, "targetRef": reference})


async def forged_engine(here: Scene) -> Sequence[str]:
    """The engine object is a Job of the victim: it is neither followed, nor suspended, nor deleted."""
    await target(here)
    job = await here.admin.create(JOB.new("payroll", VICTIM, spec={"template": {"spec": POD_SPEC}}))
    await here.rest(1)
    here.judge.rebase()
    here.judge.known.add(VICTIM)
    victims = await here.admin.get(Operation, "command", VICTIM)
    assert victims.status.engine_ref is not None
    wanted = operation("RunCommand", "job", parameters={"image": "busybox", "command": ["sh"]}, timeoutSeconds=60)
    references = (
        {"apiVersion": "batch/v1", "kind": "Job", "name": "payroll", "namespace": VICTIM, "uid": job.metadata.uid},
        {**victims.status.engine_ref.model_dump(by_alias=True, exclude_none=True), "namespace": VICTIM},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "payroll", "namespace": VICTIM},
    )
    for number, reference in enumerate(references):
        name = f"evil-{number}"
        await operate(here, name, wanted)
        await here.rest(3)
        await here.landlord.patch(Operation, name, {"status": {"engineRef": reference}}, subresource="status")
        await here.rest(3)
        await here.mallory.patch(Operation, name, {"spec": {"cancel": True}})
        await here.rest(20)
    here.judge.known.add(VICTIM)
    found = here.judge.findings()
    await here.mallory.delete_all(Operation)
    await here.rest(30)
    found += here.judge.findings()
    here.judge.rebase()  # the victim's own Job ends
    return found


async def forged_velero_engine(here: Scene) -> None:
    """The engine object is the Backup of the victim."""
    await target(here)
    victims = await here.admin.get(Operation, BACKUP, VICTIM)
    assert victims.status.engine_ref is not None
    await operate(here, "evil", operation("Backup", "velero"))
    reference = victims.status.engine_ref.model_dump(by_alias=True, exclude_none=True)
    await here.landlord.patch(Operation, "evil", {"status": {"engineRef": reference}}, subresource="status")
    await here.rest(1)
    await here.mallory.patch(Operation, "evil", {"spec": {"cancel": True}})


async def write_status(here: Scene) -> None:
    await target(here)
    await operate(here, "evil", operation("RunCommand", "job", parameters={"image": "busybox", "command": ["sh"]}))
    await here.mallory.patch(Operation, "evil", {"status": {"phase": "Running"}}, subresource="status")


async def forged_jobs(here: Scene) -> None:
    """Jobs of the attacker that look like the daemon's, for the victim's Operation and for the attacker's."""
    await target(here)
    victims = await here.admin.get(Operation, "command", VICTIM)
    made = await operate(
        here, "evil", operation("RunCommand", "job", parameters={"image": "busybox", "command": ["a"]})
    )
    for number, uid in enumerate((victims.metadata.uid, made.metadata.uid)):
        labels = {"ops.vworkspace.io/operation-uid": uid, "app.vworkspace.io/managed-by": "vworkspace"}
        annotations = {"ops.vworkspace.io/operation-name": f"{VICTIM}/command"}
        metadata = {"name": f"forged-{number}", "labels": labels, "annotations": annotations}
        await here.mallory.create(JOB, {"metadata": metadata, "spec": {"template": {"spec": POD_SPEC}}})


async def forged_metadata(here: Scene) -> None:
    await target(here)
    victim = await here.admin.get(Operation, "command", VICTIM)
    reference = {
        "apiVersion": "ops.vworkspace.io/v1alpha1",
        "kind": "Operation",
        "name": "command",
        "uid": victim.metadata.uid,
        "controller": True,
    }
    annotations = {
        "ops.vworkspace.io/cancel": "true",
        "ops.vworkspace.io/operation-name": f"{VICTIM}/command",
        "ops.vworkspace.io/namespace-uid": "forged",
        "ops.vworkspace.io/approved": "true",
    }
    spec = operation("RunCommand", "job", parameters={"image": "busybox", "command": ["sh"]})
    await operate(here, "command", spec, annotations=annotations, ownerReferences=[reference])


async def window(here: Scene) -> Sequence[str]:
    """The window of the namespace is the platform's; a target's annotation opens no other window."""
    namespace = kind("v1", "Namespace", namespaced=False, plural="namespaces")
    closed = {"metadata": {"annotations": {"ops.vworkspace.io/maintenance-window": "Sat 22:00-22:01 UTC"}}}
    await here.admin.patch(namespace, ATTACKER, patch=closed, style="merge")
    await target(here, **{"ops.vworkspace.io/maintenance-window": "Mon,Tue,Wed,Thu,Fri,Sat,Sun 00:00-23:59 UTC"})
    await operate(here, "evil", operation("Migration", "job", parameters={"image": "busybox", "command": ["sh"]}))
    await here.rest()
    made = await here.admin.get(Operation, "evil", ATTACKER)
    patch = {"metadata": {"annotations": {"ops.vworkspace.io/maintenance-window": None}}}
    await here.admin.patch(namespace, ATTACKER, patch=patch, style="merge")
    return ["it started outside the window of its namespace"] if made.status.started_at else []


async def flood(here: Scene) -> None:
    await target(here)
    for number in range(60):
        spec = operation("RunCommand", "job", parameters={"image": "busybox", "command": [str(number)]})
        await operate(here, f"evil-{number}", {**spec, "ttlSecondsAfterFinished": 0})
    await here.mallory.delete_all(Operation)


async def turn(here: Scene) -> Sequence[str]:
    """The victim's target is not blocked by a Lease or an annotation of the attacker."""
    lease = kind("coordination.k8s.io/v1", "Lease", namespaced=True, plural="leases")
    await here.landlord.create(lease, {"metadata": {"name": "operations-shop"}, "spec": {"holderIdentity": "mallory"}})
    spec = operation("RunCommand", "job", parameters={"image": "busybox", "command": ["late"]})
    await here.admin.create(Operation.decode({"metadata": {"name": "late", "namespace": VICTIM}, "spec": spec}))
    await here.rest()
    late = await here.admin.get(Operation, "late", VICTIM)
    await here.admin.delete(Operation, "late", VICTIM)
    await here.rest()
    return [] if late.status.started_at else [f"the victim's Operation is {late.status.phase}"]


ATTACKS: Final = (
    Attack(
        "a restore brings roles back with the rights of Velero",
        ("Operation spec.parameters (Restore/velero)",),
        restore_roles,
    ),
    Attack("the victims backup is restored", ("Operation spec.parameters (Restore/velero)",), restore_of_victim),
    Attack(
        "a backup is restored over other namespaces",
        ("Operation spec.parameters (Restore/velero)",),
        restore_over_victim,
    ),
    Attack("a backup claims to be of the attacker", ("Operation spec.parameters (Restore/velero)",), forged_backup),
    Attack("a backup includes other namespaces", ("Operation spec.parameters (Backup/velero)",), parameters_of_velero),
    Attack(
        "a command runs with other rights or in another namespace",
        ("Operation spec.parameters (job)",),
        parameters_of_job,
    ),
    Attack("a workflow runs with other rights", ("Operation spec.parameters (workflow)",), parameters_of_workflow),
    Attack(
        "a replication uses the victims repository", ("Operation spec.parameters (volsync)",), parameters_of_volsync
    ),
    Attack("an Operation acts on the victims instance", ("Operation spec.targetRef",), target_of_victim),
    Attack("the engine object is a Job of the victim", ("Operation status.engineRef",), forged_engine),
    Attack("the engine object is a Backup of the victim", ("Operation status.engineRef",), forged_velero_engine),
    Attack("a tenant writes the status of an Operation", ("Operation status",), write_status, Forbidden),
    Attack("Jobs of a tenant look like the daemons", ("Operation metadata.labels",), forged_jobs),
    Attack(
        "an Operation has forged annotations and owners",
        ("Operation metadata.annotations", "Operation metadata.ownerReferences"),
        forged_metadata,
    ),
    Attack("a target opens the window of its namespace", ("ApplicationInstance metadata.annotations",), window),
    Attack("many Operations come and go", ("Operation metadata.name",), flood),
    Attack("a Lease holds the turn of the victims target", ("Lease",), turn),
)
