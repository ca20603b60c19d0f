"""A manager inside a FastAPI application: started and stopped with it, and read by its probes.

Run it with `uvicorn embed_fastapi:app` from this folder.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from backup_operator import build
from fastapi import FastAPI, Response

import konverge as kv


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    manager = kv.Manager("shop-operator")
    build(manager)
    async with manager:  # drained and stopped when the application ends; nothing global remains
        app.state.manager = manager
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/readyz")
async def readyz(response: Response) -> dict[str, Any]:
    report: kv.Report = app.state.manager.report()
    response.status_code = 200 if report.ready else 503
    return {controller.name: controller.to_dict() for controller in report.controllers}
