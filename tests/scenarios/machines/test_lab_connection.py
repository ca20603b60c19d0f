"""The kubeconfig of Cluster API under the lab's faults: created, renewed, repaired; `make test` with some plans, `make lab` with all."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from machines_lab import NAME, Farm, is_true

from konverge.clock import from_rfc3339, wall_clock
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, SECRET
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing import Lab
from konverge_testing.capi.kinds import CLUSTER_LABEL

ACCOUNT = kind("v1", "ServiceAccount", namespaced=True, plural="serviceaccounts")
ACCOUNT_NAME = "nstance-capi-workload"
KUBECONFIG = f"{NAME}-kubeconfig"
OLD = 55 * 60.0
"""Seconds after which a token of one hour has been replaced."""


def text_of(data: dict[str, Any]) -> Any:
    return json.loads(base64.b64decode(data["data"]["value"]))


def claims_of(data: dict[str, Any]) -> Any:
    """Return the claims in the token of a kubeconfig."""
    part = text_of(data)["users"][0]["user"]["token"].split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def judge(data: dict[str, Any]) -> None:
    """Remove random values and times. Of the operator's kubeconfig only the subject of its token stays, and whether the token has expired.

    The times in annotations are masked before.
    """
    marks = data["metadata"].get("annotations") or {}
    if data["kind"] in ("Secret", "ConfigMap") and data["metadata"]["name"] != KUBECONFIG:
        data.pop("data", None)
    elif MachinesAnnotation.TOKEN_EXPIRY in marks:
        claims = claims_of(data)
        end = datetime.fromtimestamp(claims["exp"], UTC)
        data["data"] = f"{claims['sub']}: {'alive' if end > wall_clock() else 'ended'}"
    for part, name in (("spec", "providerIDList"), ("status", "providerIDs"), ("status", "lastSyncTime")):
        (data.get(part) or {}).pop(name, None)


async def guarded(lab: Lab) -> Farm:
    farm = await lab.enter(Farm(lab))
    lab.may_differ(None, judge, why="keys are random, and a token is as old as its last renewal")
    lab.skip_plans("the namespace is deleted *", why="it takes the document of shards and the authority")
    lab.skip_plans("secrets *nstance-operator-*: * by hand *", why="the nonce is used once")
    lab.skip_plans("the CRD of *", why="nothing brings back the objects of a user")
    lab.skip_plans("machinepools*: * by hand *", why="a MachinePool that a user deleted is not made again")
    farm.settings = farm.settings.model_copy(update={"workload_account": ACCOUNT_NAME})
    for name in farm.world.shards:
        farm.set_static(name, 0)
    return farm


def renewed(before: Object) -> Any:
    return lambda found: claims_of(found.to_dict())["exp"] > claims_of(before.to_dict())["exp"]


@pytest.mark.scenario(quick=6)
async def test_the_kubeconfig_is_made_renewed_and_mended_and_its_token_never_ends(lab: Lab) -> None:
    farm = await guarded(lab)
    lab.clock_ends(after=2 * 3600.0)
    await lab.create(ACCOUNT.new(ACCOUNT_NAME))
    await farm.start()
    await farm.start_core(kubeconfig=False)
    await lab.until(CLUSTER, NAME, lambda one: is_true(one.find_condition("RemoteConnectionProbe")), timeout=400)
    first = await lab.get(SECRET, KUBECONFIG)
    await asyncio.sleep(OLD)
    second = await lab.until(SECRET, KUBECONFIG, renewed(first), timeout=400)
    await lab.patch(SECRET, KUBECONFIG, {"metadata": {"labels": {CLUSTER_LABEL: None}}})
    await lab.until(SECRET, KUBECONFIG, lambda one: one.metadata.label(CLUSTER_LABEL) == NAME, timeout=400)
    await lab.patch(SECRET, KUBECONFIG, {"data": {"value": base64.b64encode(b"{}").decode()}})
    third = await lab.until(SECRET, KUBECONFIG, lambda one: "users" in text_of(one.to_dict()), timeout=400)
    for one in (first, second, third):
        told = from_rfc3339((one.metadata.annotations or {})[MachinesAnnotation.TOKEN_EXPIRY])
        assert told.timestamp() == claims_of(one.to_dict())["exp"]
    assert claims_of(third.to_dict())["sub"] == f"system:serviceaccount:{lab.namespace}:{ACCOUNT_NAME}"


@pytest.mark.scenario(quick=4)
async def test_the_kubeconfig_of_an_administrator_stays_whatever_fails(lab: Lab) -> None:
    farm = await guarded(lab)
    lab.clock_ends(after=2 * 3600.0)
    data = {"value": base64.b64encode(b"theirs").decode()}

    def stays() -> None:
        for entry in lab.server.store.list(("", "secrets")):
            if entry.name == KUBECONFIG:
                assert entry.object()["data"] == data, "the operator wrote into the Secret of an administrator"

    lab.always.append(stays)
    await lab.create(SECRET.new(KUBECONFIG, labels={CLUSTER_LABEL: NAME}, data=data))
    await lab.create(ACCOUNT.new(ACCOUNT_NAME))
    await farm.start()
    await farm.start_core(kubeconfig=False)
    await farm.pool("workers", timeout=400)
    await asyncio.sleep(OLD)
