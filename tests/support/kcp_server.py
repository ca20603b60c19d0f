"""kcp for operators that are processes: its root, and the same content for all workspaces, on API servers in memory over HTTPS.

Guarantees: each Workspace that was created or deleted is noted, in order. Each becomes Ready. Phases and the URL have kcp's form and order:
first the URL with the path of the workspace, then Ready.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from kcp_wire import DEFINITION

from konverge.client import Client
from konverge.errors import NotFound
from konverge.reconcilers.workspaces.kcp import WORKSPACE
from konverge.reconcilers.workspaces.words import WorkspaceAnnotation
from konverge_testing import ApiServer, install_crds
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.apiserver.http import HttpShell
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.kubeconfigs import write_kubeconfig

_ROOT = "/clusters/root"


class KcpServer:
    """The Workspaces of a root, in kcp's own view."""

    def __init__(self, root: ApiServer, client: Client, url: str, kubeconfig: Path, seconds: float) -> None:
        self.created: list[str] = []
        """The names of the Workspaces that were created, in order; a name twice: it was created twice."""
        self.deleted: list[str] = []
        self.epochs: dict[str, list[int]] = {}
        """The epochs of the owners that wrote each Workspace, in order."""
        self.kubeconfig = kubeconfig
        self.client = client
        self._url = url
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()
        root.store.observers.append(self._observe)

    def _observe(self, event: Any) -> None:
        if event.entry.resource != (WORKSPACE.group, "workspaces"):
            return
        metadata = event.entry.object()["metadata"]
        name = metadata["name"]
        epoch = int((metadata.get("annotations") or {}).get(WorkspaceAnnotation.EPOCH, 0))
        if event.type != "DELETED" and (seen := self.epochs.setdefault(name, []))[-1:] != [epoch]:
            seen.append(epoch)
        if event.type == "DELETED":
            self.deleted.append(name)
        elif event.type == "ADDED":
            self.created.append(name)
            task = asyncio.create_task(self._prepare(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _prepare(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._show(name, "Scheduling")
            await asyncio.sleep(self._seconds)
            await self.client.patch(WORKSPACE, name, patch={"spec": {"URL": f"{self._url}:{name}"}}, style="merge")
            await self._show(name, "Ready")

    async def _show(self, name: str, phase: str) -> None:
        patch = {"status": {"phase": phase}}
        await self.client.patch(WORKSPACE, name, patch=patch, style="merge", subresource="status")


@asynccontextmanager
async def kcp_server(folder: Path, *, seconds: float = 0.3, takes_bare_paths: bool = False) -> AsyncIterator[KcpServer]:
    """Serve a kcp whose Workspaces are ready after so many seconds.

    `takes_bare_paths`: a request without the path of a workspace is for the root, as in earlier releases.
    """

    async def front(call: Call) -> Response:
        if takes_bare_paths and not call.path.startswith("/clusters/"):
            return await root.handle(call)
        cluster, separator, rest = call.path.removeprefix("/clusters/").partition("/")
        call.path = f"{separator}{rest}"
        return await (root if cluster == "root" else workspace).handle(call)

    async with (
        ApiServer(random=Random(1), rbac=False) as root,
        ApiServer(random=Random(2), rbac=False) as workspace,
        HttpShell(front, authority=Authority.create("kcp")) as shell,
        Client(root.config(), name="kcp", random=Random(3)) as client,
    ):
        await install_crds(client, [DEFINITION])
        kubeconfig = write_kubeconfig(folder / "kcp.kubeconfig", shell)
        document = json.loads(kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] += _ROOT
        kubeconfig.write_text(json.dumps(document))
        yield KcpServer(root, client, f"{shell.url}{_ROOT}", kubeconfig, seconds)
