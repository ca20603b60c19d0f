"""Families of the daemon whose objects replicas share: decisions that involve several objects stay right."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from apps.job_controller import JobController, at_work
from apps.operations import COMMAND
from replicas import NAMESPACE, Replicas
from shards import HASH, STAMP

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers import apps
from konverge.reconcilers.apps import Settings
from konverge.reconcilers.apps.kinds import SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import install_crds
from konverge_testing.flux import HelmController, flux_crds

FREE = Settings(operations=OperationSettings(approval_types=frozenset()))


@asynccontextmanager
async def sharing(seed: int, *names: str) -> AsyncIterator[Replicas]:
    """Replicas of the apps family, beside Flux and the controller of Jobs."""
    async with Replicas(lambda manager: apps.install(manager, FREE), sharding=HASH, seed=seed) as replicas:
        await install_crds(replicas.client, [crd(ApplicationInstance), crd(Operation), *flux_crds()])
        config = replicas.server.config(namespace=NAMESPACE)
        async with (
            HelmController(config, namespace=NAMESPACE, random=Random(3)),
            JobController(config, NAMESPACE, seconds=3.0, random=Random(4)),
        ):
            await asyncio.gather(*(replicas.start(name) for name in names))
            yield replicas


def instance(name: str, release: str) -> ApplicationInstance:
    spec = {
        "mode": "managed",
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": release, "namespace": NAMESPACE},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    annotations = {"ops.vworkspace.io/runcommand": "job"}
    return ApplicationInstance.decode(
        {"metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations}, "spec": spec}
    )


def operation(name: str, target: str) -> Operation:
    ref = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": target}
    spec = {"targetRef": ref, "type": "RunCommand", "engine": "job", "parameters": {**COMMAND, "exclusive": True}}
    return Operation.decode({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


async def all_of(replicas: Replicas, kind: Any, test: Callable[[Any], bool], within: float = 300.0) -> list[Any]:
    async with asyncio.timeout(within):
        while True:
            found = await replicas.client.list(kind, NAMESPACE)
            if found and all(test(one) for one in found):
                return list(found)
            await asyncio.sleep(0.5)


def has(type_: str) -> Callable[[ApplicationInstance], bool]:
    def test(found: ApplicationInstance) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.is_true

    return test


def owners(found: list[Any]) -> set[str]:
    return {one.metadata.annotation(STAMP).rpartition("/")[0] for one in found}


@pytest.mark.parametrize("draw", range(3))
async def test_only_one_instance_of_a_shared_helm_release_is_applied_across_replicas(draw: int, seed: int) -> None:
    async with sharing(3 * seed + draw, "a", "b", "c") as replicas:
        asked = [instance(f"{name}-{group}", f"shop-{group}") for group in range(8) for name in ("x", "y", "z")]
        await asyncio.gather(*(replicas.client.create(one) for one in asked))
        found = await all_of(replicas, ApplicationInstance, lambda one: has("Ready")(one) or has("Blocked")(one))
        assert len(owners(found)) == 3
        ready = [one.spec.release.name for one in found if has("Ready")(one)]
        assert sorted(ready) == [f"shop-{group}" for group in range(8)]
        assert sum("ADDED helmreleases" in one.what for one in replicas.audit) == 8


async def test_operations_of_a_target_never_overlap_across_replicas_even_at_stops(seed: int) -> None:
    async with sharing(seed, "a", "b", "c") as replicas:
        await replicas.client.create(SERVICE_ACCOUNT.new("vworkspace-operation-runner", NAMESPACE))
        await replicas.client.create(instance("shop", "shop"))
        await all_of(replicas, ApplicationInstance, has("Ready"))
        at_once: list[set[str]] = []
        running: dict[str, Object] = {}

        def watch(event: Any) -> None:
            if event.entry.resource[1] == "jobs":
                job = Object(event.entry.object())
                running[job.name] = job
                at_once.append({name for name, one in running.items() if at_work(one)})

        replicas.server.store.observers.append(watch)
        await asyncio.gather(*(replicas.client.create(operation(f"run-{number}", "shop")) for number in range(9)))
        await asyncio.sleep(5)
        # By their hashes, a replica of three may own none of nine objects.
        assert len(owners(list(await replicas.client.list(Operation, NAMESPACE)))) >= 2
        await replicas.stop("a")
        await all_of(replicas, Operation, lambda one: one.status.phase == "Succeeded")
        assert len(running) == 9
        assert max(map(len, at_once)) == 1
