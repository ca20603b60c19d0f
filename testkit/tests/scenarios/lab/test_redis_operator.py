"""An operator of caches like Redis: a StatefulSet with a Service, webhooks, the scale subresource, and a Job that saves the data at the end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

import pytest
from pydantic import Field

import konverge as kv
from konverge.client.status import namespace_is_ending
from konverge.crds import Cel, Duration, Scale
from konverge_testing import Lab

STATEFUL_SET = kv.kind("apps/v1", "StatefulSet")
SERVICE = kv.kind("v1", "Service")
SECRET = kv.kind("v1", "Secret")
JOB = kv.kind("batch/v1", "Job")
PORT = 6379


class CacheSpec(kv.Model):
    replicas: Annotated[int, Field(ge=0)] = 1
    image: str = ""
    timeout: Annotated[Duration, Cel("duration(self) <= duration('1h')", "at most an hour")] = timedelta(minutes=5)


class CacheStatus(kv.Status):
    replicas: int = 0


@kv.resource("example.com/v1", conditions=("Ready",), scale=Scale(".spec.replicas", ".status.replicas"))
class Cache(kv.CustomResource[CacheSpec, CacheStatus]):
    """A cache in memory."""


class CacheReconciler:
    async def reconcile(self, cache: Cache, ctx: kv.Context[Cache]) -> kv.Outcome:
        password = ctx.cache(SECRET).find(cache.namespace, cache.name)
        if password is None:
            ctx.status.set_condition("Ready", False, "SecretMissing", f"create the Secret {cache.name}")
            return kv.Done()
        await ctx.own(service(cache))
        stored = await ctx.own(stateful_set(cache))
        ready = int(stored.get("status", "readyReplicas", default=0))
        ctx.status.draft.replicas = ready
        if ready == cache.spec.replicas and stored.get("status", "observedGeneration") == stored.metadata.generation:
            ctx.status.set_condition("Ready", True, "Running", f"{ready} replicas are ready")
        else:
            ctx.status.set_condition("Ready", False, "Starting", f"{ready} of {cache.spec.replicas} replicas are ready")
        return kv.Done()

    async def finalize(self, cache: Cache, ctx: kv.Context[Cache]) -> kv.Outcome:
        try:
            job = await ctx.own(saving(cache))
        except kv.Forbidden as error:
            if not namespace_is_ending(error):
                raise
            return kv.Done()  # nothing can be saved any more, and the finalizer would keep the namespace for ever
        complete = job.find_condition("Complete")
        return kv.Done() if complete is not None and complete.is_true else kv.RequeueAfter(30)


def service(cache: Cache) -> kv.Object:
    spec = {"clusterIP": "None", "selector": {"cache": cache.name}, "ports": [{"port": PORT}]}
    return SERVICE.new(cache.name, cache.namespace, spec=spec)


def stateful_set(cache: Cache) -> kv.Object:
    labels = {"cache": cache.name}
    password = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": cache.name, "key": "password"}}}
    container = {"name": "cache", "image": cache.spec.image, "env": [password], "ports": [{"containerPort": PORT}]}
    spec = {
        "replicas": cache.spec.replicas,
        "serviceName": cache.name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return STATEFUL_SET.new(cache.name, cache.namespace, spec=spec)


def saving(cache: Cache) -> kv.Object:
    container = {"name": "save", "image": cache.spec.image, "args": ["save", f"--host={cache.name}"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return JOB.new(f"{cache.name}-save", cache.namespace, spec={"template": pod})


def caches_of(secret: kv.Metadata, caches: kv.Caches) -> list[kv.Key]:
    return [key for key in caches(Cache).keys(secret.namespace) if key.name == secret.name]


def complete(request: kv.AdmissionRequest[Cache]) -> kv.Allow:
    request.object.spec.image = request.object.spec.image or "example.com/cache:7"
    return kv.Allow(request.object)


def check(request: kv.AdmissionRequest[Cache]) -> kv.Allow | kv.Deny:
    if request.object.spec.replicas > 5:
        return kv.Deny("a cache has at most 5 replicas", code=422, fields={"spec.replicas": "is above 5"})
    return kv.Allow()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Cache)
        .owns(STATEFUL_SET)
        .owns(SERVICE)
        .owns(JOB)
        .watches(SECRET, to=caches_of, metadata_only=True)
        .finalizer("example.com/save")
        .reconciled_by(CacheReconciler())
    )
    manager.add(kv.Webhook.mutating(Cache).handled_by(complete))
    manager.add(kv.Webhook.validating(Cache).handled_by(check))


def has(replicas: int) -> Callable[[Cache], bool]:
    return lambda cache: kv.is_true("Ready")(cache) and cache.status.replicas == replicas


@pytest.mark.scenario(quick=30)
async def test_a_cache_is_scaled_and_saved_before_it_goes(lab: Lab) -> None:
    lab.may_stay_silent(Cache, why="a cache in a namespace that is being deleted goes without a copy of its data")
    await lab.start(build)
    await lab.create(Cache.new("sessions", spec=CacheSpec()))
    await lab.until(Cache, "sessions", kv.is_false("Ready"))
    await lab.create(SECRET.new("sessions", stringData={"password": "correct horse"}))
    await lab.ready(STATEFUL_SET, "sessions")
    await lab.until(Cache, "sessions", has(1))
    await lab.patch(Cache, "sessions", {"spec": {"replicas": 3}}, subresource="scale")
    await lab.until(Cache, "sessions", has(3))
    await lab.delete(Cache, "sessions")
    await lab.ready(JOB, "sessions-save", seconds=600)
    await lab.until_gone(Cache, "sessions")


async def test_webhooks_and_rules_of_a_cache_hold_in_the_lab(lab: Lab) -> None:
    await lab.start(build)
    assert (await lab.create(Cache.new("sessions", spec=CacheSpec()))).spec.image == "example.com/cache:7"
    with pytest.raises(kv.ApiError, match="at most 5 replicas"):
        await lab.patch(Cache, "sessions", {"spec": {"replicas": 6}})
    with pytest.raises(kv.ApiError, match="at most an hour"):
        await lab.patch(Cache, "sessions", {"spec": {"timeout": "90m"}})
    await lab.patch(Cache, "sessions", {"spec": {"timeout": "60m"}})
