"""Creates the Cluster and the objects that it refers to, and keeps the kubeconfig that Cluster API uses for its Nodes. Background work.

Guarantees: an existing object is never changed, even if another client created it. A kubeconfig without the annotation of its token's end
is not changed either. A token is renewed at the last check before it would expire, also if the clock of this process is wrong: a token that
was issued to this process is measured by its age, and a token that seems to live too long is replaced.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, Final

from konverge.client import Client
from konverge.clock import from_rfc3339, rfc3339, wall_clock
from konverge.crds.machines_v1beta1 import NstanceControlPlane
from konverge.errors import ApiError, KonvergeError
from konverge.kinds import Resource, kind_of
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.machines.clusters.kubeconfig import (
    LIFE,
    is_due,
    is_ours,
    kubeconfig,
    kubeconfig_secret,
    reached,
    secret_name,
)
from konverge.reconcilers.machines.clusters.render import cluster_objects, control_plane_status
from konverge.reconcilers.machines.kinds import SECRET
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.words import LogKey

__all__ = ["ClusterKeeper"]

_LOOK_AGAIN: Final = 30.0
"""Seconds between two checks that the objects exist."""


class ClusterKeeper:
    """Keeps the objects of one operator; `run` never returns."""

    def __init__(self, client: Client, settings: MachineSettings, namespace: str) -> None:
        self._client = client
        self._settings = settings
        self._namespace = namespace
        self._given: tuple[Any, float] | None = None
        """The data of the Secret with the last token that was given to this process, and when."""
        self._log = get_logger("konverge.machines")

    async def run(self) -> None:
        """Create missing and deleted objects, and renew the kubeconfig."""
        said: set[str] = set()
        while True:
            problems = {problem for problem in (await self._keep_objects(), await self._keep_kubeconfig()) if problem}
            for problem in sorted(problems - said):
                self._log.warning("the Cluster is not as it has to be", **{LogKey.ERROR: problem})
            said = problems
            await asyncio.sleep(_LOOK_AGAIN)

    async def _keep_objects(self) -> str:
        """Return the problem of the Cluster, "" if there is none."""
        settings, problem = self._settings, ""
        wanted = cluster_objects(
            settings.cluster_name,
            self._namespace,
            settings.filter_labels,
            control_plane=settings.control_plane_stub,
        )
        try:
            for one in wanted:
                found = await self._client.get_or_create(one)
                problem = problem or _filtered_out(found, settings)
                if isinstance(found, NstanceControlPlane) and found.status.initialization is None:
                    await self._client.patch(
                        kind_of(found),
                        found.name,
                        self._namespace,
                        patch=control_plane_status(rfc3339(wall_clock()), found.metadata.generation),
                        style="merge",
                        subresource="status",
                    )
        except (ApiError, KonvergeError) as error:
            return str(error)
        return problem

    async def _keep_kubeconfig(self) -> str:
        """Return why Cluster API has no kubeconfig, "" if it has one."""
        settings = self._settings
        if not settings.workload_account:
            return ""
        name = secret_name(settings.cluster_name)
        try:
            server = reached(self._client.config, (await self._client.config.source.current()).tls.ca)
            found = await self._client.find(SECRET, name, self._namespace)
            if found is None:
                await self._client.create(await self._issued(server))
            elif is_ours(found) and is_due(found, settings.cluster_name, server, wall_clock(), self._age(found)):
                issued = await self._issued(server)
                metadata = {"labels": issued.metadata.labels, "annotations": issued.metadata.annotations}
                patch = {"metadata": metadata, "data": issued.get("data")}
                await self._client.patch(SECRET, expect=found, patch=patch, style="merge")
        except (ApiError, KonvergeError) as error:
            return f"Secret {name}, by which Cluster API reaches the Nodes: {error}"
        return ""

    async def _issued(self, server: dict[str, Any]) -> Object:
        """Return the Secret with a new token of the account."""
        settings, account, asked = self._settings, self._settings.workload_account, asyncio.get_running_loop().time()
        answer = await self._client.raw(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": int(LIFE.total_seconds())},
            },
        )
        issued = json.loads(answer)["status"]
        text = kubeconfig(settings.cluster_name, server, account, issued["token"])
        expiry = from_rfc3339(issued["expirationTimestamp"])
        made = kubeconfig_secret(settings.cluster_name, self._namespace, text, expiry, settings.filter_labels)
        self._given = made.get("data"), asked
        return made

    def _age(self, secret: Object) -> timedelta | None:
        """Return the time since this process was given the token, None if it was given another token."""
        if self._given is None or self._given[0] != secret.get("data"):
            return None
        return timedelta(seconds=asyncio.get_running_loop().time() - self._given[1])


def _filtered_out(found: Resource, settings: MachineSettings) -> str:
    """Return why an existing object is not reconciled, "" if it is."""
    missing = [
        f"{name}={value}" for name, value in settings.filter_labels.items() if found.metadata.label(name) != value
    ]
    named = f"{kind_of(found).kind} {found.metadata.name}"
    return f"{named} is left alone without the label {missing[0]}: add it" if missing else ""
