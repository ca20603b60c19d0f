"""An attack as a row of a table, and a run of all rows of a family on one stage.

    ATTACKS = (Attack("a claim selects a pool of the victim", ("Nextcloud spec.poolSelector",), select_private),)

Guarantees: after each row the attacker's objects are deleted and the stage is at rest again, so a row finds the stage as the first row did.
If the API server unexpectedly rejects the request of a row, that is a finding: such a row would test nothing.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from trust.judge import Judge
from trust.stage import ATTACKER, HOME, Stage
from trust.tenants import Tenant, bindings
from trust.victim import furnish

from konverge.client import Client
from konverge.client.requests import MERGE
from konverge.crds.catalogue import own_resources
from konverge.errors import ApiError
from konverge.kinds import kind_of
from konverge_testing.lab.environments import memory_lab
from konverge_testing.loop import VirtualTimeLoop

_GROUP: Final = "rbac.authorization.k8s.io"
_KEPT: Final = frozenset({"default", "kube-root-ca.crt", "capsule-pool-shared"})
"""Objects of the attacker's namespace that Kubernetes and the family quota create there."""
FOREIGN: Final = "attacker.example.com/"
"""The prefix of the finalizers that attacks write."""
REST: Final = 120.0
"""Virtual seconds after an attack, in which the daemon does whatever the attack makes it do."""


class Scene:
    """The stage at rest, and its users.

    `mallory` is a tenant: the role `konverge-edit` and Kubernetes' `edit` in the attacker's namespace. `landlord` may write every object
    of the families in that namespace, statuses included: the landlord is not a tenant, but the namespace is not the daemon's either. `wanda`
    may create WorkspaceClaims, which have no namespace, and change those whose names she was given.
    """

    def __init__(self, stage: Stage, mallory: Tenant, landlord: Tenant, wanda: Tenant) -> None:
        self.stage = stage
        self.mallory = mallory
        self.landlord = landlord
        self.wanda = wanda
        self.judge = Judge(stage)
        self.number = 0
        """The number of the attack, which is part of the names of its objects."""

    @property
    def admin(self) -> Client:
        """The client of the administrators."""
        return self.stage.lab.client

    async def rest(self, seconds: float = REST) -> None:
        """Let the daemon work until it is at rest."""
        await asyncio.sleep(seconds)
        await self.stage.lab.settled(timeout=900)

    async def clean(self) -> None:
        """Delete the attacker's objects, the objects of the families first; at last objects that a finalizer of the attacker holds."""
        groups = {kind_of(model).group for model in own_resources()}
        for ours, force in ((True, False), (False, False), (True, True)):
            for (resource, namespace, name), data in list(self.judge.objects()):
                plural, _, group = resource.partition(".")
                if data["metadata"]["uid"] in self.judge.uids and (group in groups) is ours and name not in _KEPT:
                    await self._delete(data, plural, namespace, force=force)
            await self.rest(20)

    async def _delete(self, data: dict[str, Any], plural: str, namespace: str, *, force: bool) -> None:
        version, name = data["apiVersion"], data["metadata"]["name"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        path = f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{name}"
        finalizers = data["metadata"].get("finalizers", [])
        kept = [] if force else [one for one in finalizers if not one.startswith(FOREIGN)]
        try:
            if kept != finalizers:
                await self.admin.raw("PATCH", path, body={"metadata": {"finalizers": kept}}, content_type=MERGE)
            await self.admin.raw("DELETE", path)
        except ApiError:  # it is deleted, or its kind cannot be deleted
            return


Act = Callable[[Scene], Awaitable[Sequence[str] | None]]


@dataclass(frozen=True)
class Attack:
    """An attack: the rows of docs/reference/trust.md that it tries, and its actions.

    `act` returns findings of its own, if it has any. `refused` is the API server's expected error.
    """

    name: str
    rows: tuple[str, ...]
    act: Act
    refused: type[ApiError] | None = None

    @property
    def slug(self) -> str:
        """The name as the id of a test."""
        return self.name.replace(" ", "-")


@asynccontextmanager
async def scene(*, seed: int = 0) -> AsyncIterator[Scene]:
    """Enter a stage of its own with its users, at rest."""
    async with memory_lab(seed=seed, namespace=HOME) as lab, Stage(lab) as stage:
        for document in (*bindings("mallory", ATTACKER), *_landlord(), *_workspaces()):
            await stage.create_rbac(document)
        mallory, landlord, wanda = [
            Tenant(await stage.client_of(name), ATTACKER) for name in ("mallory", "landlord", "wanda")
        ]
        await furnish(stage)
        stage.meter.reset()
        with frozen():  # the heap of the server and the stand-ins: its collection is not the daemon's work
            yield Scene(stage, mallory, landlord, wanda)


@contextmanager
def frozen() -> Iterator[None]:
    """Exempt the present heap from collection; what the run of the tests has exempted stays exempt afterwards."""
    before = gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if before:
            gc.collect()
            gc.freeze()


def _landlord() -> list[dict[str, Any]]:
    groups = sorted({kind_of(model).group for model in own_resources()})
    rules = [
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["batch", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]},
    ]
    subject = {"kind": "User", "name": "landlord"}
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": "landlord", "namespace": ATTACKER}}
    reference = {"apiGroup": _GROUP, "kind": "Role", "name": "landlord"}
    return [
        {**head, "kind": "Role", "rules": rules},
        {**head, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


def _workspaces() -> list[dict[str, Any]]:
    claims = {"apiGroups": ["cloudapi.team-orca.dev"], "resources": ["workspaceclaims"]}
    rules = [
        {**claims, "verbs": ["create", "get", "list", "watch"]},
        {**claims, "verbs": ["update", "patch", "delete"], "resourceNames": ["evil", "treasure"]},
    ]
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": "wanda"}}
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "wanda"}
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": reference,
            "subjects": [{"kind": "User", "name": "wanda"}],
        },
    ]


async def _run(attacks: Sequence[Attack]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    async with scene() as here:
        for here.number, attack in enumerate(attacks):
            found[attack.name] = await _try(here, attack)
            await here.clean()
            here.judge.begin()
        here.stage.lab.dismiss()
    return found


async def _try(here: Scene, attack: Attack) -> list[str]:
    error: ApiError | None = None
    own: Sequence[str] = ()
    try:
        own = await attack.act(here) or ()
    except ApiError as raised:
        error = raised
    await here.rest()
    found = [*own, *here.judge.findings()]
    if attack.refused is None and error is not None:
        found.append(f"the API server refused it: {error}")
    elif attack.refused is not None and not isinstance(error, attack.refused):
        found.append(f"the API server did not refuse it with {attack.refused.__name__}: {error}")
    problems = here.stage.lab.findings
    problems.collect()
    found += [str(one) for one in problems.problems]
    problems.problems.clear()
    found += here.stage.lab.fails_for_ever()
    return found


def run_attacks(attacks: Sequence[Attack]) -> dict[str, list[str]]:
    """Run the rows on a stage of their own; return the findings of each, by its name."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_run(attacks))
