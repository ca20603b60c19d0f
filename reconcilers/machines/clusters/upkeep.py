"""Creates the Cluster and the objects that it refers to, and keeps the kubeconfig that Cluster API uses for its Nodes.

It is background work of the leader and no reconciler: the object to reconcile is among the objects that it creates.

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

__all__ = ["ClusterUpkeep"]

_CHECK_SECONDS: Final = 30.0
"""Seconds between two checks that the objects exist."""


class ClusterUpkeep:
    """Keeps the Cluster of one operator; `run` never returns."""

    def __init__(self, client: Client, settings: MachineSettings, namespace: str) -> None:
        self._client = client
        self._settings = settings
        self._namespace = namespace
        self._issued: tuple[Any, float] | None = None
        """The data of the Secret with the last token that this process received, and the time of its request."""
        self._log = get_logger("konverge.machines")

    async def run(self) -> None:
        """Create missing and deleted objects, and renew the kubeconfig."""
        reported: set[str] = set()
        while True:
            problems = {problem for problem in (await self._keep_objects(), await self._keep_kubeconfig()) if problem}
            for problem in sorted(problems - reported):
                self._log.warning("the Cluster is not as it has to be", **{LogKey.ERROR: problem})
            reported = problems
            await asyncio.sleep(_CHECK_SECONDS)

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
            for object_ in wanted:
                stored = await self._client.get_or_create(object_)
                problem = problem or _filtered_out(stored, settings)
                if isinstance(stored, NstanceControlPlane) and stored.status.initialization is None:
                    await self._client.patch(
                        kind_of(stored),
                        stored.name,
                        self._namespace,
                        patch=control_plane_status(rfc3339(wall_clock()), stored.metadata.generation),
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
            stored = await self._client.find(SECRET, name, self._namespace)
            if stored is None:
                await self._client.create(await self._new_secret(server))
            elif is_ours(stored) and is_due(stored, settings.cluster_name, server, wall_clock(), self._age(stored)):
                renewed = await self._new_secret(server)
                metadata = {"labels": renewed.metadata.labels, "annotations": renewed.metadata.annotations}
                patch = {"metadata": metadata, "data": renewed.get("data")}
                await self._client.patch(SECRET, expect=stored, patch=patch, style="merge")
        except (ApiError, KonvergeError) as error:
            return f"Secret {name}, by which Cluster API reaches the Nodes: {error}"
        return ""

    async def _new_secret(self, server: dict[str, Any]) -> Object:
        """Return the Secret with a new token of the account."""
        settings, account = self._settings, self._settings.workload_account
        requested = asyncio.get_running_loop().time()
        response = await self._client.raw(
            "POST",
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": int(LIFE.total_seconds())},
            },
        )
        token = json.loads(response)["status"]
        text = kubeconfig(settings.cluster_name, server, account, token["token"])
        expiry = from_rfc3339(token["expirationTimestamp"])
        secret = kubeconfig_secret(settings.cluster_name, self._namespace, text, expiry, settings.filter_labels)
        self._issued = secret.get("data"), requested
        return secret

    def _age(self, secret: Object) -> timedelta | None:
        """Return the time since this process requested the token, None if the Secret has a token of another process."""
        if self._issued is None or self._issued[0] != secret.get("data"):
            return None
        return timedelta(seconds=asyncio.get_running_loop().time() - self._issued[1])


def _filtered_out(stored: Resource, settings: MachineSettings) -> str:
    """Return why an existing object is not reconciled, "" if it is."""
    missing = [
        f"{name}={value}" for name, value in settings.filter_labels.items() if stored.metadata.label(name) != value
    ]
    named = f"{kind_of(stored).kind} {stored.metadata.name}"
    return f"{named} is left alone without the label {missing[0]}: add it" if missing else ""
