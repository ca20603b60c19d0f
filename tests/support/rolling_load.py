"""Load on families while replicas are replaced: workers that create, edit and delete objects, each as soon as its last step has converged.

Guarantees: a worker knows which of its objects exist and the state that each must have at the end. It waits for states, never for seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from patience import PATIENCE

from konverge.client import Client
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import NotFound
from konverge.kinds import kind

NAMESPACE = "load"
_SPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")
_KEPT = 3
"""Objects that a worker leaves beside the object of its present step."""
_AHEAD = 3
"""Rounds that a fast worker is ahead of the slowest worker at most, so that it leaves CPU to the replicas."""
_POLL = 0.05


class RollingLoad:
    """Workers of three families against one API server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workers = {
            "apps": _Worker(client, ApplicationInstance, NAMESPACE, self._instance, _is_ready, self._upgrade),
            "quota": _Worker(client, ResourcePoolClaim, NAMESPACE, self._claim, _is_bound, None),
            "workspaces": _Worker(client, WorkspaceClaim, "", self._workspace, _has_workspace, None),
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Create the shared objects, and begin."""
        await self._client.create(_SPACE.new(NAMESPACE, labels={"tenant": "load"}))
        await self._client.create(
            ResourcePool.decode(
                {
                    "metadata": {"name": "load"},
                    "spec": {
                        "quota": {"hard": {"pods": "100"}},
                        "selectors": [{"matchLabels": {"tenant": "load"}}],
                        "config": {"defaultsZero": True},
                    },
                }
            )
        )
        self._tasks = [
            asyncio.create_task(worker.run(self._may_go_on), name=f"load on {name}")
            for name, worker in self._workers.items()
        ]

    def _may_go_on(self, rounds: int) -> bool:
        return rounds <= min(worker.rounds for worker in self._workers.values()) + _AHEAD

    async def advance(self, rounds: int) -> None:
        """Return once each worker has completed so many more rounds."""
        wanted = {name: worker.rounds + rounds for name, worker in self._workers.items()}
        async with asyncio.timeout(60 * PATIENCE):
            while any(worker.rounds < wanted[name] for name, worker in self._workers.items()):
                self._raise_failures()
                await asyncio.sleep(_POLL)

    async def stop(self) -> None:
        """End the workers after their current rounds."""
        for worker in self._workers.values():
            worker.stopping = True
        async with asyncio.timeout(60 * PATIENCE):
            await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        """End the workers at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _raise_failures(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def check(self) -> None:
        """Assert that exactly the objects of the workers exist, and that each has converged."""
        for worker in self._workers.values():
            await worker.check()

    @property
    def names(self) -> dict[str, set[str]]:
        """The names of the objects that exist, by family."""
        return {name: set(worker.names) for name, worker in self._workers.items()}

    # --- the objects -----------------------------------------------------------------------------------------------------------

    def _instance(self, number: int) -> ApplicationInstance:
        name = f"app-{number}"
        return ApplicationInstance.decode(
            {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "appRef": {"catalogId": "shop"},
                    "chart": {
                        "sourceType": "helm",
                        "url": "https://charts.example.com",
                        "name": "shop",
                        "version": "1.0.0",
                    },
                    "release": {"name": name, "namespace": NAMESPACE},
                    "values": {"source": "inline", "inline": {"replicas": number}},
                },
            }
        )

    async def _upgrade(self, name: str) -> Callable[[Any], bool]:
        change = {"spec": {"chart": {"version": "1.1.0"}}}
        await self._client.patch(ApplicationInstance, name, NAMESPACE, patch=change, style="merge")
        return lambda found: _is_ready(found) and found.status.last_applied_chart.version == "1.1.0"

    def _claim(self, number: int) -> ResourcePoolClaim:
        return ResourcePoolClaim.decode(
            {
                "metadata": {"name": f"claim-{number}", "namespace": NAMESPACE},
                "spec": {"pool": "load", "claim": {"pods": "1"}},
            }
        )

    def _workspace(self, number: int) -> WorkspaceClaim:
        return WorkspaceClaim.new(f"workspace-{number}")


class _Worker:
    """Creates, edits and deletes the objects of one kind."""

    def __init__(
        self,
        client: Client,
        model: Any,
        namespace: str,
        create: Callable[[int], Any],
        converged: Callable[[Any], bool],
        edit: Callable[[str], Awaitable[Callable[[Any], bool]]] | None,
    ) -> None:
        self.rounds = 0
        self.names: list[str] = []
        self.stopping = False
        self._client = client
        self._model = model
        self._namespace = namespace
        self._create = create
        self._converged = converged
        self._edit = edit

    async def run(self, may_go_on: Callable[[int], bool]) -> None:
        while not self.stopping:
            if not may_go_on(self.rounds):
                await asyncio.sleep(_POLL)
                continue
            created = await self._client.create(self._create(self.rounds))
            self.names.append(created.name)
            await self._until(created.name, self._converged)
            if self._edit is not None:
                await self._until(created.name, await self._edit(created.name))
            if len(self.names) > _KEPT:
                name = self.names.pop(0)
                await self._client.delete(self._model, name, self._namespace)
                await self._until_gone(name)
            self.rounds += 1

    async def check(self) -> None:
        found = list(await self._client.list(self._model, self._namespace or None))
        assert {one.name for one in found} == set(self.names)
        assert [one.name for one in found if not self._converged(one)] == []

    async def _until(self, name: str, test: Callable[[Any], bool]) -> None:
        found: Any = None
        try:
            async with asyncio.timeout(60 * PATIENCE):
                while found is None or not test(found):
                    await asyncio.sleep(_POLL)
                    found = await self._client.get(self._model, name, self._namespace)
        except TimeoutError:
            raise AssertionError(f"{name} has not converged: {found.to_dict().get('status')}") from None

    async def _until_gone(self, name: str) -> None:
        try:
            async with asyncio.timeout(60 * PATIENCE):
                while True:
                    await self._client.get(self._model, name, self._namespace)
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise AssertionError(f"{name} is not deleted") from None
        except NotFound:
            return


def _is_current(found: Any) -> bool:
    return bool(found.status.observed_generation == found.metadata.generation)


def _is_ready(found: ApplicationInstance) -> bool:
    ready = found.find_condition("Ready")
    return ready is not None and ready.is_true and _is_current(found) and found.status.last_applied_chart is not None


def _is_bound(found: ResourcePoolClaim) -> bool:
    condition = found.status.condition
    return condition is not None and condition.type == "Bound" and condition.is_true


def _has_workspace(found: WorkspaceClaim) -> bool:
    return found.status.phase == "Ready" and found.status.kube_config_secret is not None
