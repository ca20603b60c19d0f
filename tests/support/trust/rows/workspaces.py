"""Attacks by WorkspaceClaims, which have no namespace: the workspace and the kubeconfig of another claim."""

from collections.abc import Sequence
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import HOME

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import Forbidden, Invalid


async def claim(here: Scene, name: str, spec: dict[str, Any], **metadata: Any) -> None:
    """Create a claim as a tenant."""
    made = await here.wanda.create(WorkspaceClaim, {"metadata": {"name": name, **metadata}, "spec": spec})
    workspace = spec.get("id", name)
    here.judge.owns_workspace(made.metadata.uid, "" if workspace == "treasure" else workspace)


async def take_by_id(here: Scene) -> None:
    await claim(here, "evil", {"id": "treasure"})
    await here.rest(400)
    await here.wanda.delete(WorkspaceClaim, "evil")


async def take_by_name(here: Scene) -> None:
    await claim(here, "treasure", {})
    await here.rest(400)
    await here.wanda.delete(WorkspaceClaim, "treasure")


async def delete_claim(here: Scene) -> None:
    await here.wanda.delete(WorkspaceClaim, "victim")


async def change_id(here: Scene) -> None:
    await claim(here, "evil", {"id": "own"})
    await here.rest(60)
    await here.wanda.patch(WorkspaceClaim, "evil", {"spec": {"id": "treasure"}})


async def forged_metadata(here: Scene) -> None:
    victim = await here.admin.get(WorkspaceClaim, "victim")
    reference = {
        "apiVersion": "cloudapi.team-orca.dev/v1alpha1",
        "kind": "WorkspaceClaim",
        "name": "victim",
        "uid": victim.metadata.uid,
        "controller": True,
    }
    labels = {"cloudapi.team-orca.dev/workspace": "treasure", "cloudapi.team-orca.dev/claim-uid": victim.metadata.uid}
    annotations = {"cloudapi.team-orca.dev/epoch": "999999", "cloudapi.team-orca.dev/claim": victim.metadata.uid}
    await claim(here, "evil", {"id": "own"}, labels=labels, annotations=annotations, ownerReferences=[reference])
    await here.rest(60)
    await here.wanda.delete(WorkspaceClaim, "evil")


async def squat_secret(here: Scene) -> Sequence[str]:
    """The Secret's name follows from the id, and a Secret of that name that is not the claim's stays as it is."""
    await here.stage.secret(HOME, "ws-squat-kubeconfig", data={"kubeconfig": "of somebody else"})
    here.judge.rebase()
    await claim(here, "evil", {"id": "squat"})
    await here.rest(400)
    await here.wanda.delete(WorkspaceClaim, "evil")
    await here.rest(60)
    found = here.judge.findings()
    await here.admin.raw("DELETE", f"/api/v1/namespaces/{HOME}/secrets/ws-squat-kubeconfig")
    here.judge.rebase()
    return found


async def read_secret(here: Scene) -> None:
    await here.wanda.client.raw("GET", f"/api/v1/namespaces/{HOME}/secrets/ws-treasure-kubeconfig")


async def write_status(here: Scene) -> None:
    await claim(here, "evil", {"id": "own"})
    status = {"kubeConfigSecret": {"name": "ws-treasure-kubeconfig", "namespace": HOME}}
    await here.wanda.patch(WorkspaceClaim, "evil", {"status": status}, subresource="status")


async def forged_status(here: Scene) -> None:
    await claim(here, "evil", {"id": "own"})
    await here.rest(60)
    status = {
        "kubeConfigSecret": {"name": "vworkspace-agent-credentials", "namespace": HOME},
        "clusterUrl": "https://mallory.example.com/clusters/root:own",
    }
    await here.admin.patch(WorkspaceClaim, "evil", patch={"status": status}, style="merge", subresource="status")
    await here.rest(5)
    await here.wanda.delete(WorkspaceClaim, "evil")


ATTACKS: Final = (
    Attack("a claim names the victims workspace by id", ("WorkspaceClaim spec.id",), take_by_id),
    Attack("a claim has the name of the victims workspace", ("WorkspaceClaim metadata.name",), take_by_name),
    Attack("a claim changes its id", ("WorkspaceClaim spec.id",), change_id, Invalid),
    Attack("a tenant deletes the victims claim", ("WorkspaceClaim",), delete_claim, Forbidden),
    Attack(
        "a claim of a workspace has forged labels annotations and owners",
        (
            "WorkspaceClaim metadata.labels",
            "WorkspaceClaim metadata.annotations",
            "WorkspaceClaim metadata.ownerReferences",
        ),
        forged_metadata,
    ),
    Attack("the Secret of a claim exists and is of others", ("WorkspaceClaim spec.id",), squat_secret),
    Attack("a tenant reads the victims kubeconfig", ("WorkspaceClaim status",), read_secret, Forbidden),
    Attack("a tenant writes the status of a workspace", ("WorkspaceClaim status",), write_status, Forbidden),
    Attack("a forged status names a Secret of the daemon", ("WorkspaceClaim status",), forged_status),
)
