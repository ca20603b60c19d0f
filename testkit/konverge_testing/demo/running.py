"""An operator in the process of the demo: as its ServiceAccount, with its logs in a file of the stage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from konverge.client import Client
from konverge.daemon import engine, logs
from konverge.kinds import kind
from konverge.tasks import wait_first
from konverge_testing.demo.stages import Stage

__all__ = ["HOME", "apply", "log_of", "running"]

HOME: Final = "konverge"
"""The namespace of the operator's own ServiceAccount."""


@contextlib.asynccontextmanager
async def running(stage: Stage, operator: engine.Operator) -> AsyncIterator[Mapping[str, str]]:
    """Run an operator until the block ends; yields the addresses that it serves."""
    account = await stage.act_as(f"system:serviceaccount:{HOME}:{operator.name}", ("system:serviceaccounts",))
    stop = asyncio.Event()
    serving: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
    with log_of(stage).open("w", encoding="utf-8", buffering=1) as file:
        engine.set_up(operator.settings)
        logs.configure(form="console", stream=file)
        task = asyncio.create_task(
            engine.operate(
                operator, stop, config=account, serving=lambda addresses: serving.set_result(dict(addresses))
            )
        )
        try:
            await wait_first(task, serving)
            yield await serving
        finally:
            stop.set()
            await asyncio.wait({task})
            task.result()
            logs.configure()


def log_of(stage: Stage) -> Path:
    """Return the file of the operator's log."""
    return stage.directory / "konverge.log"


async def apply(admin: Client, document: dict[str, Any]) -> None:
    """Apply an object as the administrator; an object without a namespace is of the cluster."""
    namespaced = bool(document["metadata"].get("namespace"))
    await admin.apply(kind(document["apiVersion"], document["kind"], namespaced=namespaced), document)
