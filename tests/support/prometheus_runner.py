"""A real Prometheus for a test: it scrapes every second, loads alert rules, and serves queries over its API."""

from __future__ import annotations

import asyncio
import json
import math
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from konverge.clock import wall_clock
from konverge_testing.ports import ReservedPort

_SECONDS = 90
_POLL = 0.2


@dataclass(frozen=True)
class Target:
    """A scraped process, and the labels that the Prometheus operator adds to its series besides `instance`."""

    address: str
    job: str
    namespace: str
    pod: str


class Prometheus:
    """One running server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, log: Path) -> None:
        self._session = session
        self._url = url
        self.log = log

    async def _get(self, path: str, **parameters: str) -> Any:
        async with self._session.get(f"{self._url}{path}", params=parameters) as response:
            body = await response.json()
        assert body["status"] == "success", (parameters, body)
        return body["data"]

    async def ready(self) -> None:
        """Wait until it is ready."""
        async with asyncio.timeout(_SECONDS):
            while True:
                try:
                    async with self._session.get(f"{self._url}/-/ready") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(_POLL)

    async def gives_data(self, query: str, *, instant: bool, minutes: float = 5.0) -> bool:
        """Tell whether a query has a number now, or at any second of the last minutes; NaN, a quantile of nothing, is none."""
        if instant:
            found = (await self._get("/api/v1/query", query=query))["result"]
            values = [one["value"] for one in found]
        else:
            now = wall_clock().timestamp()
            span = {"start": str(now - 60 * minutes), "end": str(now), "step": "1"}
            found = (await self._get("/api/v1/query_range", query=query, **span))["result"]
            values = [value for one in found for value in one["values"]]
        return any(not math.isnan(float(value)) for _, value in values)

    async def rules(self) -> dict[str, str]:
        """Return the evaluated alerts, each with its error, "" without an error."""
        groups = (await self._get("/api/v1/rules"))["groups"]
        return {
            rule["name"]: rule.get("lastError", "")
            for group in groups
            for rule in group["rules"]
            if rule["health"] != "unknown"
        }


@asynccontextmanager
async def prometheus(
    program: Path, folder: Path, targets: Sequence[Target], rules: Sequence[Path]
) -> AsyncIterator[Prometheus]:
    """Run the program until the block ends."""
    config: Mapping[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": one.job,
                "static_configs": [{"targets": [one.address], "labels": {"namespace": one.namespace, "pod": one.pod}}],
            }
            for one in targets
        ],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    port = ReservedPort("127.0.0.1")
    try:
        log = folder / "prometheus.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                str(program),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port.number}",
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            async with aiohttp.ClientSession() as session:
                found = Prometheus(session, f"http://127.0.0.1:{port.number}", log)
                await found.ready()
                yield found
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
    finally:
        port.release()
