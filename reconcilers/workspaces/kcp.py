"""Workspaces of kcp: the provider that uses the API server of kcp.

    ensure       a Workspace below the root, with the uid of its claim
    credential   in the workspace: a ServiceAccount, cluster-admin there, and a token with a lifetime
    delete       the Workspace, by its uid and version; kcp deletes the content, and removes its finalizer last

Guarantees: the credentials of the root go only to the URLs that `kcp_urls.py` allows; redirects are not followed. A Workspace without the
uid of the claim is not touched. No finalizer is removed. Ready is never kept: a Workspace may become unavailable, and ready again. Nothing
is written to kcp behind the fence. A new owner of a claim writes its epoch on the Workspace before anything else, by compare-and-swap: from
then on a delayed write of the former owner has a stale version, and its calls fail.

Caveats: a delayed create has no version to check. If the new owner has already deleted the Workspace of a deleted claim, the delayed create
creates it again, and it stays.

Source: docs/reference/workspaces.md#kcp.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeAlias

from konverge.client import Client, ClientConfig, Fence
from konverge.client.tls import TlsOptions
from konverge.clock import from_rfc3339
from konverge.errors import Conflict, KonvergeError, NotLeading, RetryAfter
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.reconcilers.shared.endpoints import same_server
from konverge.reconcilers.workspaces.kcp_urls import RefusedUrl, root_problem, workspace_url
from konverge.reconcilers.workspaces.provider import (
    ClaimOfWorkspace,
    ProviderUnavailable,
    WorkspaceCredential,
    WorkspacePhase,
    WorkspaceRefused,
    WorkspaceState,
    WorkspaceTaken,
)
from konverge.reconcilers.workspaces.words import WorkspaceAnnotation

__all__ = ["WORKSPACE", "FindRoot", "KcpWorkspaces", "kcp_state", "kubeconfig_text", "root_of"]

WORKSPACE: Final[Kind[Object]] = kind("tenancy.kcp.io/v1alpha1", "Workspace", namespaced=False, plural="workspaces")
FindRoot: TypeAlias = Callable[[str, str], Awaitable[ClientConfig]]
"""Returns the configuration of a workspace by its name and URL; of the root if the name is ""."""
_SERVICE_ACCOUNT: Final = kind("v1", "ServiceAccount", namespaced=True, plural="serviceaccounts")
_BINDING: Final = kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", namespaced=False, plural="clusterrolebindings"
)
_ACCOUNT: Final = "workspace-claim"
"""The ServiceAccount, and its binding; in `default`, which each workspace has."""
_HOME: Final = "default"
_NAME: Final = "konverge-workspaces"
_PHASES: Final = {
    "Ready": WorkspacePhase.READY,
    "Unavailable": WorkspacePhase.UNAVAILABLE,
    "Inactive": WorkspacePhase.UNAVAILABLE,
    "Terminating": WorkspacePhase.DELETING,
    "Deleting": WorkspacePhase.DELETING,
}
"""The other phases (Scheduling, Initializing, and phases of later versions) are not ready."""
_CONTENT: Final = "WorkspaceContentDeleted"


def kcp_state(workspace: Object) -> WorkspaceState:
    """Return the state of a Workspace.

    >>> kcp_state(Object({"spec": {"URL": "https://kcp/clusters/root:a"}, "status": {"phase": "Ready"}})).url
    'https://kcp/clusters/root:a'
    """
    url, identity = workspace.get("spec", "URL", default=""), workspace.metadata.uid
    phase = _PHASES.get(workspace.get("status", "phase", default=""), WorkspacePhase.PREPARING)
    if workspace.metadata.deleting:
        phase = WorkspacePhase.DELETING
    if phase is WorkspacePhase.READY and not url:
        return WorkspaceState(WorkspacePhase.PREPARING, message="kcp has not given it a URL yet", identity=identity)
    deleting = phase is WorkspacePhase.DELETING
    problems = [
        f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
        for condition in workspace.get("status", "conditions", default=[])
        if condition.get("status") == "False"
        and (condition.get("type") == _CONTENT if deleting else str(condition.get("type")).startswith("Workspace"))
    ]
    return WorkspaceState(phase, url, "" if phase is WorkspacePhase.READY else "; ".join(problems), identity)


def kubeconfig_text(server: str, token: str, ca: bytes) -> str:
    """Return a kubeconfig with one context, as JSON, which is YAML."""
    cluster = {"server": server, **({"certificate-authority-data": base64.b64encode(ca).decode()} if ca else {})}
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "workspace", "cluster": cluster}],
        "users": [{"name": "workspace", "user": {"token": token}}],
        "contexts": [{"name": "workspace", "context": {"cluster": "workspace", "user": "workspace"}}],
        "current-context": "workspace",
    }
    return json.dumps(data, indent=2) + "\n"


def root_of(kubeconfig: str, hosts: tuple[str, ...] = ()) -> FindRoot:
    """Return a function that finds a configuration: of the root, or of the workspace with this name and URL.

    Raises WorkspaceRefused for a URL that must not receive the credentials of the kubeconfig.
    """

    async def find(name: str, url: str) -> ClientConfig:
        root = await ClientConfig.from_kubeconfig(kubeconfig)
        if not name:
            if problem := root_problem(root.server):
                raise WorkspaceRefused(problem)
            return root
        server = _checked_url(name, url, root.server, hosts)
        # The options of the kubeconfig (another name in the certificate, no verification) are for its own server.
        tls = root.tls if same_server(server, root.server) else TlsOptions(strict_x509=root.tls.strict_x509)
        return ClientConfig(server=server, source=root.source, tls=tls, proxy=root.proxy, origin=root.origin)

    return find


def _checked_url(name: str, url: str, root: str, hosts: tuple[str, ...]) -> str:
    try:
        return workspace_url(url, name, root=root, hosts=hosts)
    except RefusedUrl as error:
        raise WorkspaceRefused(str(error)) from None


class KcpWorkspaces:
    """The workspaces below the root of a kcp. `find` returns the configuration of a workspace by its name and URL, of the root by "".

    `hosts` are the allowed servers of workspaces beside the root's, each as `host` or `host:port`.

    `fence` is the controller's fence (`Manager.fence_of`); None with a single replica.

    Errors: the errors of a provider; NotLeading behind the fence; RetryAfter if the Workspace changed since it was read.
    """

    def __init__(self, find: FindRoot, *, hosts: tuple[str, ...] = (), fence: Fence | None = None) -> None:
        self._find = find
        self._hosts = hosts
        self._fence = fence
        self._root: tuple[Client, AsyncExitStack] | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        root, self._root = self._root, None
        if root is not None:
            await root[1].aclose()

    async def _open(self, name: str, url: str, stack: AsyncExitStack) -> Client:
        client = await stack.enter_async_context(Client(await self._find(name, url), name=_NAME))
        if self._fence is None:
            return client
        return await stack.enter_async_context(client.fenced_by(self._fence))

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Client]:
        try:
            async with self._opening:
                if self._root is None:
                    stack = AsyncExitStack()
                    self._root = await self._open("", "", stack), stack
            yield self._root[0]
        except (NotLeading, ProviderUnavailable, RetryAfter, WorkspaceRefused, WorkspaceTaken):
            raise
        except Conflict as error:
            raise RetryAfter(READ_AGAIN, "the workspace changed since it was read") from error
        except KonvergeError as error:
            raise ProviderUnavailable(f"kcp: {error}") from error

    async def ensure(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Create the Workspace if it does not exist."""
        async with self._asking() as client:
            annotations = {WorkspaceAnnotation.CLAIM: claim.uid}
            if claim.epoch:
                annotations[WorkspaceAnnotation.EPOCH] = str(claim.epoch)
            workspace = await client.get_or_create(WORKSPACE.new(claim.workspace, annotations=annotations, spec={}))
            if not _is_of(claim, workspace):
                raise WorkspaceTaken(f"the workspace {claim.workspace} exists and was not made for this claim")
            state = kcp_state(await _taken_over(client, claim, workspace))
            if state.phase is not WorkspacePhase.READY:
                return state
            return replace(state, url=_checked_url(claim.workspace, state.url, client.config.server, self._hosts))

    async def credential(self, claim: ClaimOfWorkspace, lifetime: timedelta) -> WorkspaceCredential:
        """Request a token of the ServiceAccount in the workspace, which has no access before it is ready."""
        state = await self.ensure(claim)
        if state.phase is not WorkspacePhase.READY:
            raise ProviderUnavailable(f"kcp: the workspace {claim.workspace} is not ready any more")
        async with self._asking(), AsyncExitStack() as stack:
            inside = await self._open(claim.workspace, state.url, stack)
            token, expires = await _token(inside, lifetime)
            ca = (await inside.config.source.current()).tls.ca
            return WorkspaceCredential(kubeconfig_text(state.url, token, ca), from_rfc3339(expires))

    async def delete(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Delete the Workspace, unless it is another's."""
        async with self._asking() as client:
            workspace = await client.find(WORKSPACE, claim.workspace)
            if workspace is None or not _is_of(claim, workspace):
                return WorkspaceState(WorkspacePhase.GONE)
            if not workspace.metadata.deleting:
                workspace = await _taken_over(client, claim, workspace)
                await client.delete(WORKSPACE, expect=workspace)
                workspace = await client.find(WORKSPACE, claim.workspace)
                if workspace is None:
                    return WorkspaceState(WorkspacePhase.GONE)
            return kcp_state(workspace)


async def _taken_over(client: Client, claim: ClaimOfWorkspace, workspace: Object) -> Object:
    """Return the Workspace with the epoch of this owner; raises ProviderUnavailable if it has the epoch of a later owner."""
    text = workspace.metadata.annotation(WorkspaceAnnotation.EPOCH)
    known = int(text) if text.isascii() and text.isdigit() else 0
    if not claim.epoch or known == claim.epoch or workspace.metadata.deleting:
        return workspace
    if known > claim.epoch:
        # Epochs are resourceVersions: they begin lower after a change to the mode `ordinal`, and after a restore of etcd.
        raise ProviderUnavailable(
            f"a replica of epoch {known} owns the claim of workspace {claim.workspace}, this one is of epoch {claim.epoch}. "
            f"If that lasts, epochs have begun anew: remove the annotation {WorkspaceAnnotation.EPOCH} from the Workspace"
        )
    epoch = {"metadata": {"annotations": {WorkspaceAnnotation.EPOCH: str(claim.epoch)}}}
    return await client.patch(WORKSPACE, expect=workspace, patch=epoch, style="merge")


def _is_of(claim: ClaimOfWorkspace, workspace: Object) -> bool:
    return workspace.metadata.annotation(WorkspaceAnnotation.CLAIM) == claim.uid


async def _token(inside: Client, lifetime: timedelta) -> tuple[str, str]:
    """Return a token, and when it expires."""
    await inside.apply(_SERVICE_ACCOUNT, _SERVICE_ACCOUNT.new(_ACCOUNT, _HOME).to_dict(), force=True)
    binding: dict[str, Any] = _BINDING.new(
        _ACCOUNT,
        subjects=[{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": _HOME}],
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    ).to_dict()
    await inside.apply(_BINDING, binding, force=True)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(lifetime.total_seconds())},
    }
    path = f"/api/v1/namespaces/{_HOME}/serviceaccounts/{_ACCOUNT}/token"
    status = json.loads(await inside.raw("POST", path, body=body, repeatable=True))["status"]
    return str(status["token"]), str(status["expirationTimestamp"])
