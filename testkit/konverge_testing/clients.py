"""Pytest fixtures that are clients of the session's control plane: `admin` and `client_for`.

They are coroutines of the test's own event loop, so the plugin loads this file only if pytest-asyncio is loaded. Importing it imports
no client yet.

    async def test_a_reader_may_not_write(client_for: ClientFor, namespace: str) -> None:
        reader = await client_for("reader", rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
        with pytest.raises(Forbidden):
            await reader.delete(SECRET, "target", namespace)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest_asyncio

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge_testing.control_plane import ControlPlane
    from konverge_testing.rights import Rule

__all__ = ["ClientFor", "admin", "client_for"]


class ClientFor(Protocol):
    """The type of the fixture `client_for`."""

    async def __call__(
        self, service_account: str, *, rules: Sequence[Rule] = (), cluster_rules: Sequence[Rule] = ()
    ) -> Client:
        """Create a ServiceAccount in the test's namespace and return a client with its rights and no others.

        `rules` hold in that namespace (Role and RoleBinding carry the account's name, so a test can withdraw them), `cluster_rules` in
        the whole cluster (`<namespace>-<account>`). They hold when this returns. The test's end closes the client.
        """


@pytest_asyncio.fixture
async def admin(admin_kubeconfig: Path) -> AsyncIterator[Client]:
    """A client with the administrator's rights on the session's control plane."""
    async with await _client(admin_kubeconfig, "test-admin") as client:
        yield client


@pytest_asyncio.fixture
async def client_for(control_plane: ControlPlane, namespace: str) -> AsyncIterator[ClientFor]:
    """Create clients with the rights of a ServiceAccount of the test's namespace; see `ClientFor`."""
    from konverge_testing.rights import grant, revoke

    api = control_plane.blocking.api
    async with AsyncExitStack() as undo:

        async def make(
            service_account: str, *, rules: Sequence[Rule] = (), cluster_rules: Sequence[Rule] = ()
        ) -> Client:
            outside = await asyncio.to_thread(grant, api, namespace, service_account, rules, cluster_rules)
            undo.push_async_callback(asyncio.to_thread, revoke, api, outside)
            kubeconfig = await control_plane.service_account_kubeconfig(namespace, service_account)
            return await undo.enter_async_context(await _client(kubeconfig, service_account))

        yield make


async def _client(kubeconfig: Path, name: str) -> Client:
    from konverge.client import Client, ClientConfig

    return Client(await ClientConfig.from_kubeconfig(kubeconfig), name=name)
