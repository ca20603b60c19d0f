"""The whole daemon on the in-memory API server with the rights of its ServiceAccount, and the controllers of other projects below it.

The families run with Flux, CloudNativePG, Velero, VolSync, Argo, the Job controller, Nstance, S3, kcp and a control plane, all simulated.

Guarantees: the daemon has exactly the rights that `konverge rbac` prints, so a confused deputy shows as a write by the daemon.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any, Final, Self

from apps.engine_shop import SNAPSHOTS
from apps.job_controller import JobController
from machines_lab import Farm
from nstance_kit import dial
from pools.memory_s3 import MemoryS3
from pull_kit import TOKEN
from trust.deputies import RUNNER
from trust.holding import OF_DAEMON, LoopMeter

from konverge.client import Client
from konverge.client.credentials import TlsMaterial
from konverge.crds import crd
from konverge.crds.catalogue import own_resources
from konverge.daemon.rbac import manifests
from konverge.kinds import kind
from konverge.reconcilers import apps, clusters, machines, pools, quota, workspaces
from konverge.reconcilers.apps.kinds import SERVICE_ACCOUNT
from konverge.reconcilers.machines.settings import OnDemandAllowance
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.pools.buckets.api import S3Access, S3Api
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.workspaces import MemoryWorkspaces, WorkspaceSettings
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.agent_server import AgentServer
from konverge_testing.apiserver.requests import User
from konverge_testing.argo import WorkflowController, argo_crds
from konverge_testing.cnpg import CnpgOperator, CnpgWorld, cnpg_crds
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.velero import VeleroServer, velero_crds
from konverge_testing.volsync import VolSyncController, volsync_crds

NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")
SECRET = kind("v1", "Secret", namespaced=True, plural="secrets")
HOME: Final = "konverge-system"
INSTANCES: Final = "nextcloud-instances"
PRIVATE: Final = "victim-instances"
"""The namespace of the instances of a pool that serves the victim only."""
VELERO: Final = "velero"
VICTIM: Final = "victim"
ATTACKER: Final = "attacker"
PLATFORM_KEY: Final = ("https://s3.example.com", "platform")
"""The S3 server of the administrators, and the access key that belongs to it."""
DEMAND: Final = OnDemandAllowance(namespaces=(ATTACKER,), groups=("workers",), machines=3)
"""The machines that pods of the attacker's namespace may have."""
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_OURS: Final = tuple(one for one in own_resources() if not one.__name__.startswith("Nstance"))


class KeptAccesses(MemoryS3):
    """S3 in memory that keeps the endpoint and the access key of each connection."""

    def __init__(self) -> None:
        super().__init__()
        self.accesses: list[tuple[str, str]] = []

    @asynccontextmanager
    async def of(self, access: S3Access) -> AsyncIterator[S3Api]:
        self.accesses.append((access.endpoint, access.access_key))
        async with super().of(access) as api:
            yield api


class KeptOwners(MemoryWorkspaces):
    """Workspaces in memory, with their owners readable by tests."""

    def owner(self, name: str) -> str:
        """Return the UID of the claim that a workspace belongs to."""
        return self._workspaces[name].owner


class Stage:
    """The daemon, and the clients of its users; use it with `async with`. The lab's namespace is the daemon's."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.s3 = KeptAccesses()
        self.workspaces = KeptOwners()
        self.farm = Farm(lab, "a", "b")
        self.farm.settings = self.farm.settings.model_copy(update={"on_demand_allowances": (DEMAND,)})
        lab.always.clear()  # predicates of another suite, for a family that runs without neighbours
        self.plane = AgentServer("east", tokens=(TOKEN,), random=lab.rng())
        self.meter = LoopMeter(lab.server)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        lab, stack = self.lab, self._stack
        stack.enter_context(self.meter)
        stack.push_async_callback(self.farm.world.close)
        for name in (INSTANCES, PRIVATE, VELERO, ATTACKER, VICTIM):
            labels = {"capsule.clastix.io/tenant": "shared"} if name in (ATTACKER, VICTIM) else {}
            await lab.client.create(NAMESPACE.new(name, labels=labels))
            await lab.client.create(SERVICE_ACCOUNT.new(RUNNER, name))
        foreign = (*flux_crds(), *cnpg_crds(), *velero_crds(), *volsync_crds(), *argo_crds(), SNAPSHOTS)
        await install_crds(lab.client, [*(crd(model) for model in _OURS), *foreign])
        await self.farm.prepare()
        await self.farm.write_document()
        for document in manifests("konverge", self._rules(), "", f"{HOME}/konverge"):
            await self.create_rbac(document)
        config = lab.server.config()
        for stand_in in (
            HelmController(config, random=Random(1)),
            CnpgOperator(config, world=CnpgWorld(seconds=5.0), random=Random(2)),
            VeleroServer(config, namespace=VELERO, random=Random(3)),
            JobController(config, None, seconds=900, random=Random(4)),
            VolSyncController(config, random=Random(5)),
            WorkflowController(config, random=Random(6)),
        ):
            await stack.enter_async_context(stand_in)
        token = OF_DAEMON.set(True)
        await lab.start(
            self.build,
            name="konverge",
            config=lab.server.config(user=_account(HOME, "konverge"), namespace=HOME),
            settings=ManagerSettings(namespace=None, strict=True),
            crds=False,
        )
        OF_DAEMON.reset(token)
        await self.farm.start_core()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.lab.stop()
        await self._stack.aclose()

    def build(self, manager: Manager) -> None:
        """Add all families, as the daemon does, with simulated servers of other projects."""
        apps.install(manager, apps.Settings(namespace=HOME, service_account="installer"))
        clusters.install(manager, clusters.Settings(namespace=HOME), connect=self.plane.connect)
        chosen = PoolSettings(instance_namespace=INSTANCES, namespaces=(PRIVATE,), instances=_INSTANCES)
        pools.install(manager, chosen, s3=self.s3)
        quota.install(manager, quota.Settings())
        workspaces.install(manager, WorkspaceSettings(namespace=HOME), provider=self.workspaces)

        async def dialed(tls: TlsMaterial) -> Dial:
            return dial(self.farm.world, tls)

        random = self.lab.rng()
        machines.install(manager, self.farm.settings, dial=dialed, entropy=random.randbytes, random=random)

    def _rules(self) -> Any:
        manager = Manager("konverge", settings=ManagerSettings(namespace=None))
        self.build(manager)
        return manager.rules()

    async def create_rbac(self, document: dict[str, Any]) -> None:
        """Create a role or a binding."""
        where = document["metadata"].get("namespace")
        place = f"namespaces/{where}/" if where else ""
        await self.lab.client.raw("POST", f"{_RBAC}/{place}{document['kind'].lower()}s", body=document)

    async def client_of(self, user: str) -> Client:
        """Return a client of an ordinary user, closed with the stage."""
        config = self.lab.server.config(user=User(user, ("system:authenticated",)))
        return await self._stack.enter_async_context(Client(config, name=user, random=Random(7)))

    async def secret(self, namespace: str, name: str, **more: Any) -> None:
        """Create a Secret as its owner does."""
        data = {key: base64.b64encode(value.encode()).decode() for key, value in more.pop("data", {}).items()}
        await self.lab.client.create(SECRET.new(name, namespace, data=data, **more))


_INSTANCES = MaterialSettings(s3_endpoint=PLATFORM_KEY[0], service_account="installer")


def _account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)
