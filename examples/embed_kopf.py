"""A manager inside a kopf operator: kopf's handlers keep running beside it, so that controllers can be migrated one at a time.

Run it with `kopf run embed_kopf.py` from this folder.
"""

from typing import Any

import kopf
from backup_operator import build

import konverge as kv


@kopf.on.startup()
async def start(memo: kopf.Memo, **_: Any) -> None:
    memo.manager = kv.Manager("shop-operator")
    build(memo.manager)
    await memo.manager.start()  # the manager has a task of its own: stopping it from another handler is fine


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.manager.stop()


@kopf.on.event("v1", "configmaps", labels={"app": "shop"})
async def seen(name: str, logger: Any, **_: Any) -> None:
    logger.info("kopf saw %s", name)
