"""A real control plane for tests: etcd, kube-apiserver and, on request, kube-controller-manager, as plain processes on loopback.

Guarantees
- TLS, RBAC, client certificates, ServiceAccount tokens; free ports; a temporary directory; a kubeconfig of mode 0600. Ready in about four
  seconds if the programs are on the machine (`konverge_testing.binaries` finds them).
- `async with` leaves nothing behind: no process, no file; also when the block is cancelled, and also when this process is
  killed.
- Several planes run side by side. A plane is bound to no event loop: what one loop started, another may use.

Caveats: no nodes, no running pods, no Service routing, no admission webhooks outside loopback; the data is not durable.

Sources of the rules: the shared facts on control planes from public Go modules (times, flags, traps).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from konverge_testing.arguments import HOST
from konverge_testing.binaries import Binaries
from konverge_testing.config import CONTROLLERS, ControlPlaneConfig
from konverge_testing.failures import BinariesMissing, ControlPlaneError
from konverge_testing.plane import Plane
from konverge_testing.processes import Exit

__all__ = ["CONTROLLERS", "BinariesMissing", "ControlPlane", "ControlPlaneConfig", "ControlPlaneError"]

T = TypeVar("T")


class ControlPlane:
    """A control plane that lives as long as its block.

        async with ControlPlane(ControlPlaneConfig(controllers=True)) as plane:
            print(await plane.kubectl("get", "namespaces"))

    `with` does the same outside an event loop (a script, a session-scoped fixture), and blocks the thread. Between
    start and end the properties return paths and addresses; outside they raise ControlPlaneError.
    """

    def __init__(self, config: ControlPlaneConfig | None = None) -> None:
        self._config = config or ControlPlaneConfig()
        self._plane = Plane(self._config)

    async def __aenter__(self) -> Self:
        try:
            await _to_the_end(self._plane.start, on_cancel=self._plane.abort)
        except asyncio.CancelledError:
            await _to_the_end(self._plane.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _to_the_end(self._plane.stop)

    def __enter__(self) -> Self:
        self._plane.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._plane.stop()

    def __repr__(self) -> str:
        where = self._plane.layout.url if self._plane.is_running else "not running"
        return f"<ControlPlane {where}>"

    # -- where things are -----------------------------------------------------------------------------------------

    @property
    def config(self) -> ControlPlaneConfig:
        """The settings that the constructor got."""
        return self._config

    @property
    def binaries(self) -> Binaries:
        """The programs that run, and their origin."""
        return self._plane.binaries

    @property
    def url(self) -> str:
        """The API server's address, `https://127.0.0.1:...`."""
        return self._plane.layout.url

    @property
    def host(self) -> str:
        """The API server's host."""
        return HOST

    @property
    def port(self) -> int:
        """The API server's port; it stays the same over restarts."""
        return self._plane.layout.apiserver_port

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the API server's certificate."""
        return self._plane.layout.pki("ca.crt")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, mode 0600; removed when the plane ends."""
        return self._plane.layout.kubeconfig("admin")

    @property
    def admin_kubeconfig(self) -> Path:
        """The same as `kubeconfig`, for programs that use several kubeconfigs."""
        return self.kubeconfig

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that lead a program in a pod to the API server."""
        return self._plane.layout.environment

    @property
    def directory(self) -> Path:
        """The temporary directory; removed when the plane ends."""
        return self._plane.layout.directory

    @property
    def audit_file(self) -> Path:
        """One JSON line per request, if the config sets `audit`."""
        return self._plane.layout.audit_file

    @property
    def blocking(self) -> Plane:
        """The same plane as blocking calls, for code outside any event loop."""
        return self._plane

    # -- who may enter --------------------------------------------------------------------------------------------

    def user_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate for a user in groups; RBAC decides what that user may do."""
        return self._plane.user_kubeconfig(user, groups)

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a token of a ServiceAccount, which is created if need be; the namespace must exist."""
        return await asyncio.to_thread(self._plane.service_account_kubeconfig, namespace, name)

    async def service_account_token(
        self, namespace: str, name: str, *, seconds: int = 3600, audiences: tuple[str, ...] = ()
    ) -> str:
        """Return a token of a ServiceAccount, which is created if need be; the server grants 600 seconds at least."""
        return await asyncio.to_thread(
            self._plane.service_account_token, namespace, name, seconds=seconds, audiences=audiences
        )

    async def service_account_files(self, directory: Path, *, namespace: str, name: str) -> None:
        """Write `token`, `ca.crt` and `namespace` into a directory, as in a pod.

        A second call rotates them as the kubelet does: a new token, all files exchanged at once.
        """
        await asyncio.to_thread(self._plane.service_account_files, directory, namespace, name)

    # -- what can be done to it -----------------------------------------------------------------------------------

    async def restart_apiserver(self) -> None:
        """Kill the API server as a crash would, start it again on the same port and data, wait until it is ready."""
        await self.stop_apiserver()
        await self.start_apiserver()

    async def stop_apiserver(self) -> None:
        """Kill the API server as a crash would: connections break, its port refuses."""
        await _to_the_end(self._plane.stop_apiserver)

    async def start_apiserver(self) -> None:
        """Start the API server again after `stop_apiserver`, and wait until it is ready."""
        await _to_the_end(self._plane.start_apiserver, on_cancel=self._plane.abort)

    async def create_namespace(self, name: str) -> None:
        """Create a namespace; an existing namespace is left unchanged."""
        await asyncio.to_thread(self._plane.api.create_namespace, name)

    async def kubectl(self, *command: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its standard output; raises ControlPlaneError if it fails."""
        return await asyncio.to_thread(self._plane.kubectl, *command, stdin=stdin)

    def fallen(self) -> dict[str, Exit]:
        """Return the programs that ended unexpectedly, and how."""
        return self._plane.fallen()


async def _to_the_end(call: Callable[[], T], *, on_cancel: Callable[[], None] | None = None) -> T:
    """Run a blocking call in a thread and wait for its end even if the waiter is cancelled; then raise the cancellation."""
    task = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            if on_cancel is not None:
                on_cancel()
    if cancelled is not None:
        task.exception()  # retrieved, so that the loop does not log it as never retrieved
        raise cancelled
    return task.result()
