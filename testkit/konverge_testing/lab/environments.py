"""Where a lab runs: the in-memory API server, a real control plane, or a cluster. The same test runs on each.

Guarantees: leaving an environment removes what it created. On a cluster that is only the test's own namespace; CRDs are installed on a
cluster only if `install` is set, and are not removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from konverge.client import Client, ClientConfig
from konverge.errors import UsageError
from konverge.kinds import kind
from konverge_testing.blocking import refused
from konverge_testing.lab.lab import Lab
from konverge_testing.lab.runs import USER
from konverge_testing.loop import MOST_TURNS, VirtualTimeLoop
from konverge_testing.memory_server import ApiServer

__all__ = ["cluster_lab", "control_plane_lab", "memory_lab"]

_NAMESPACE: Any = kind("v1", "Namespace", namespaced=False, plural="namespaces")


@asynccontextmanager
async def memory_lab(*, seed: int = 0, namespace: str = "lab") -> AsyncIterator[Lab]:
    """A lab on an API server of its own in this process. Raises UsageError on a loop whose time is real."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise UsageError(
            "the in-memory lab runs on its own event loop, whose time is virtual, and this test runs on another one; let the test ask for "
            "the fixture `lab` by that name, or run it elsewhere with --lab-on=control-plane"
        )
    random = Random(f"konverge {seed}")  # noqa: S311  # the seed is the caller's
    async with ApiServer(random=random) as server:
        config = server.config(namespace=namespace)
        async with Client(config, name=USER, random=random) as client:
            await client.create(_NAMESPACE.new(namespace))
            lab = Lab(client, config, namespace, server=server, random=random)
            with _watched(loop, lab, server):
                async with lab:
                    yield lab


@contextmanager
def _watched(loop: VirtualTimeLoop, lab: Lab, server: ApiServer) -> Iterator[None]:
    """Check the predicates of a lab after each write, bound the iterations and the waits of its loop, refuse calls that block the loop, and
    record the exceptions that reach it.
    """

    def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        lab.findings.unhandled(context)
        loop.default_exception_handler(context)

    turns, handler = loop.most_turns, loop.get_exception_handler()
    loop.most_turns = MOST_TURNS if turns is None else turns
    loop.limit()
    loop.set_exception_handler(unhandled)
    server.store.observers.append(lab.findings.observe)
    try:
        with refused(lab.findings.problems.append):
            yield
    finally:
        server.store.observers.remove(lab.findings.observe)
        loop.set_exception_handler(handler)
        loop.most_turns = turns
        loop.no_limit()


@asynccontextmanager
async def control_plane_lab(kubeconfig: Path, namespace: str) -> AsyncIterator[Lab]:
    """A lab in a namespace of an existing control plane."""
    config = await ClientConfig.from_kubeconfig(kubeconfig)
    async with Client(config, name=USER) as client, Lab(client, config, namespace) as lab:
        yield lab


@asynccontextmanager
async def cluster_lab(
    slug: str, *, random: Random, install: bool, kubeconfig: Path | None = None
) -> AsyncIterator[Lab]:
    """A lab in a new namespace of the cluster that the kubeconfig ($KUBECONFIG, `~/.kube/config`) names."""
    config = await ClientConfig.load(kubeconfig=kubeconfig)
    namespace = f"lab-{slug}-{random.getrandbits(24):06x}"
    async with Client(config, name=USER) as client:
        await client.create(_NAMESPACE.new(namespace, labels={"konverge.dev/lab": "true"}))
        try:
            async with Lab(client, config, namespace, install=install) as lab:
                yield lab
        finally:
            await client.delete(_NAMESPACE, namespace)
