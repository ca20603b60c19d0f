"""The rights that the chart gives for other values than the defaults, against the audit log of daemons that run with them.

tests/e2e/test_deploy.py does the same for the default values.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from audit import Audited, audited, until_audited
from family_uses import (
    UNUSED,
    UNUSED_OF_POOLS,
    change_source_and_values,
    claim_and_release,
    install_and_remove,
    share_a_pool,
)
from forkserver import ForkServer
from helm_template import NAMESPACE, Rendered, Right, Template, merged
from machines_uses import UNUSED_OF_MACHINES, scale_drain_and_demand
from nstance_server import NstanceProcess
from operators import Operator

from konverge.client import Client, ClientConfig
from konverge.crds import all_manifests, to_yaml
from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceControlPlane, NstanceMachine, NstanceMachinePool
from konverge.errors import NotFound
from konverge.reconcilers.apps.kinds import SECRET
from konverge.runtime.http.access import SUBJECT_ACCESS_REVIEWS, is_allowed
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab, install_crds
from konverge_testing.capi import CapiCore, definitions
from konverge_testing.cnpg import CnpgOperator, cnpg_crds
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.proxy import ProxiedRequest

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(300, func_only=True)]

APPS_ALONE: dict[str, Any] = {"families": {"quota": {"enabled": False}}}
QUOTA_ALONE: dict[str, Any] = {"families": {"apps": {"enabled": False}}}
POOLS_ALONE: dict[str, Any] = {
    "families": {"apps": {"enabled": False}, "quota": {"enabled": False}, "pools": {"enabled": True}}
}
MACHINES_ALONE: dict[str, Any] = {
    "families": {"apps": {"enabled": False}, "quota": {"enabled": False}, "machines": {"enabled": True}}
}
QUICK_MACHINES: dict[str, Any] = {
    "cluster_id": "acme",
    "tenant": "blue",
    "poll": 2,
    "retire_after": 2,
    "instance_start_poll": 0.3,
    "drain_poll": 0.5,
}
INFRASTRUCTURE = (NstanceCluster, NstanceControlPlane, NstanceMachinePool, NstanceMachine)
NO_ELECTION: dict[str, Any] = {"replicas": 1, "election": {"enabled": False}}
WEBHOOKS: dict[str, Any] = {"webhooks": {"enabled": True}}
SECURE: dict[str, Any] = {"metrics": {"secure": {"enabled": True}}}
ONE_NAMESPACE: dict[str, Any] = merged(APPS_ALONE, {"watchNamespace": "one"})

RUNS: dict[str, dict[str, dict[str, Any]]] = {
    "each family alone": {
        "apps": merged(APPS_ALONE, NO_ELECTION, SECURE, {"settings": {"apps": {"watch_secrets": True}}}),
        "quota": merged(QUOTA_ALONE, WEBHOOKS),
    },
    "pools": {
        "pools": merged(
            POOLS_ALONE,
            NO_ELECTION,
            {"settings": {"pools": {"instance_namespace": "pools", "instances": {"retry": 1}}}},
        )
    },
    "machines": {"machines": merged(MACHINES_ALONE, NO_ELECTION, {"settings": {"machines": QUICK_MACHINES}})},
    "one namespace": {"one": merged(ONE_NAMESPACE, WEBHOOKS, SECURE, {"sharding": {"mode": "hash"}})},
}
"""Daemons that run at once, by the name of the release and of the namespace that the apps family works in, and their values."""

LEASES = "leases.coordination.k8s.io"
OF_THE_CHART = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Secret")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of its own: the roles and webhooks are cluster-wide."""
    with ControlPlane(ControlPlaneConfig(controllers=True, audit=True)) as running:
        yield running


@dataclass(frozen=True)
class Release:
    """A daemon with the rights and settings of a rendered chart."""

    name: str
    rendered: Rendered
    daemon: Operator

    @property
    def account(self) -> str:
        return f"system:serviceaccount:{NAMESPACE}:{self.name}"

    @property
    def families(self) -> list[str]:
        return self.rendered.environment["KONVERGE_CONTROLLERS"].split(",")

    @property
    def elects(self) -> bool:
        return "KONVERGE_ELECTION__ENABLED" in self.rendered.environment

    @property
    def secure(self) -> bool:
        return "KONVERGE_METRICS_SECURE" in self.rendered.environment


def manifests(rendered: Rendered) -> list[dict[str, Any]]:
    """Return the daemon's environment. The webhooks are registered for no object: nothing routes the traffic of Services here."""
    found = [one for one in rendered.objects if one["kind"] in OF_THE_CHART]
    for one in rendered.objects:
        if one["kind"].endswith("WebhookConfiguration"):
            never = {"matchLabels": {"konverge.dev/test": "called-by-no-request"}}
            found.append({**one, "webhooks": [{**hook, "objectSelector": never} for hook in one["webhooks"]]})
    return found


@asynccontextmanager
async def released(
    name: str,
    values: dict[str, Any],
    template: Template,
    plane: ControlPlane,
    client: Client,
    fork: ForkServer,
    folder: Path,
) -> AsyncIterator[Release]:
    rendered = template(merged(values, {"fullnameOverride": name, "crds": {"install": False}}))
    await plane.kubectl("apply", "-f", "-", stdin=to_yaml(*manifests(rendered)))
    await in_effect(client, rendered.rights, f"system:serviceaccount:{NAMESPACE}:{name}")
    mount = folder / name
    await plane.service_account_files(mount, namespace=NAMESPACE, name=name)
    here = {"KONVERGE_SERVICE_ACCOUNT": str(mount)}
    ports = dict.fromkeys(("KONVERGE_METRICS", "KONVERGE_WEBHOOKS__ADDRESS"), "127.0.0.1:0")
    ports["KONVERGE_DEBUG"] = "0"  # metrics over TLS share no address
    environment = {**plane.environment, **rendered.environment, **here, **ports, "KONVERGE_HEALTH": "127.0.0.2:0"}
    daemon = Operator(rendered.container["args"][1:], folder / f"{name}.log", environment=environment, forkserver=fork)
    async with daemon.running_for():
        await daemon.ready(timeout=90)
        yield Release(name, rendered, daemon)
        assert await daemon.stop() == 0


async def in_effect(client: Client, rights: Iterable[Right], user: str) -> None:
    """Wait until the API server enforces these rights, a moment after they were granted."""
    async with asyncio.timeout(60):
        for place, group, resource, names, verb in rights:
            main, _, below = resource.partition("/")
            about = {"namespace": place, "group": group, "resource": main, "subresource": below, "verb": verb}
            spec = {"user": user, "resourceAttributes": {**about, "name": names[0] if names else ""}}
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            while not is_allowed(json.loads(await client.raw("POST", SUBJECT_ACCESS_REVIEWS, body=body))):
                await asyncio.sleep(0.05)


async def scrape(release: Release, plane: ControlPlane) -> None:
    """Have metrics read without a token, with an authorized account's token, and with another account's token."""
    await plane.kubectl(
        *("create", "clusterrolebinding", f"{release.name}-scraper"),
        *("--clusterrole", f"{release.name}-metrics-reader", "--serviceaccount", f"{NAMESPACE}:scraper"),
    )
    tokens = {name: await plane.service_account_token(NAMESPACE, name) for name in ("scraper", "other")}
    assert await read_metrics(release) == 401
    assert await read_metrics(release, f"{tokens['scraper']}x") == 401
    assert await read_metrics(release, tokens["other"]) == 403
    async with asyncio.timeout(
        90
    ):  # the API server learns of a new binding a moment later, and a denial is known for 30 s
        while await read_metrics(release, tokens["scraper"]) != 200:
            await asyncio.sleep(0.2)
    assert await release.daemon.answers("/readyz") == (200, "ok")
    log = release.daemon.log.read_text()
    assert not [token for token in tokens.values() if token in log]


async def read_metrics(release: Release, token: str = "") -> int:
    serving = release.daemon.said("serving")
    assert serving is not None
    assert serving["metrics"].startswith("https:")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{serving['metrics']}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
        assert (b"rest_client_requests_total" in await response.read()) == (response.status == 200)
        return response.status


async def at_work(release: Release, plane: ControlPlane, config: ClientConfig, client: Client) -> None:
    """Have a daemon do everything that it may have to do."""
    work: list[Any] = [scrape(release, plane)] if release.secure else []
    async with AsyncExitStack() as stack:
        lab = await stack.enter_async_context(Lab(client, config, release.name))
        if "apps" in release.families:
            await stack.enter_async_context(HelmController(config, namespace=release.name))
            work += [install_and_remove(lab), change_source_and_values(lab)]
        if "quota" in release.families:
            work.append(share_a_pool(lab))
        if "pools" in release.families:
            await stack.enter_async_context(HelmController(config, namespace=release.name))
            await stack.enter_async_context(CnpgOperator(config, pace=0.1, random=Random(1)))
            work.append(claim_and_release(lab))
        if "machines" in release.families:
            servers = await stack.enter_async_context(NstanceProcess.run("a", "b"))
            await stack.enter_async_context(CapiCore(config, infrastructure=INFRASTRUCTURE))
            work.append(
                scale_drain_and_demand(await stack.enter_async_context(Lab(client, config, NAMESPACE)), servers)
            )
        await asyncio.gather(*work)


def named(right: Right) -> tuple[str, str]:
    """Return verb and resource as they are in the audit log."""
    _, group, resource, _, verb = right
    main, slash, below = resource.partition("/")
    return verb, f"{main}.{group}{slash}{below}" if group else resource


def needs(one: Audited, right: Right) -> bool:
    """Whether a request needed this right."""
    place, _, _, names, _ = right
    return named(right) in one.rights and place in ("", one.namespace) and (not names or one.name in names)


def left_over(rights: Iterable[Right], requests: list[Audited]) -> set[tuple[str, str]]:
    """Return the rights that no request needed, in the notation of the table of reasons."""
    return {named(right) for right in rights if not any(needs(one, right) for one in requests)}


@pytest.mark.parametrize("run", RUNS)
async def test_nothing_is_denied_and_every_right_is_used_or_has_a_reason(
    helm_program: Path, plane: ControlPlane, tmp_path: Path, run: str
) -> None:
    template = Template(helm_program)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(config, name="test"))
        fork = await stack.enter_async_context(ForkServer())
        await install_crds(client, [*all_manifests(), *flux_crds(), *cnpg_crds(), *definitions()])
        for name in (NAMESPACE, *RUNS[run]):
            await plane.create_namespace(name)
        before = len(audited(plane))
        async with AsyncExitStack() as running:
            releases = [
                await running.enter_async_context(released(name, values, template, plane, client, fork, tmp_path))
                for name, values in RUNS[run].items()
            ]
            await asyncio.gather(*(at_work(release, plane, config, client) for release in releases))
        end = f"the-end-of-{run.replace(' ', '-')}"
        with pytest.raises(NotFound):
            await client.get(SECRET, end, NAMESPACE)
        await until_audited(plane, ProxiedRequest("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{end}"))
    for release in releases:
        requests = [one for one in audited(plane)[before:] if one.user == release.account]
        assert requests
        denied = {right for one in requests if one.code == 403 for right in one.rights}
        assert denied == set(), release.name
        # A slow machine may use a right that has a reason, so the two need not be equal.
        rights = [right for right in release.rendered.rights if not is_about_the_ring(right)]
        assert left_over(rights, requests) - with_a_reason(release) == set(), release.name


def is_about_the_ring(right: Right) -> bool:
    """Whether a right allows to write Events in the ring's namespace: they report edits of its Leases, which do not happen here."""
    namespace, group, *_ = right
    return (namespace, group) == (NAMESPACE, "events.k8s.io")


def with_a_reason(release: Release) -> set[tuple[str, str]]:
    """Return the rights that may stay unused for a reason.

    A new leader lists the kinds that it watches, to know that its caches are current. Without an election `list` is for API servers that do
    not stream the first list of a watch. The Lease of a member is deleted a minute after its end.
    """
    given = {named(right) for right in release.rendered.rights}
    reasons = (
        UNUSED.keys()
        | UNUSED_OF_POOLS.keys()
        | UNUSED_OF_MACHINES.keys()
        | {(verb, LEASES) for verb in ("create", "get", "delete")}
    )  # of Operations, which are not run here
    streamed = set() if release.elects else {("list", resource) for verb, resource in given if verb == "watch"}
    return (reasons & given) | streamed
