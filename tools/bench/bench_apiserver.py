"""The in-memory API server: the time until it is ready, status applies per second, and the memory of 20,000 objects.

One process, one core. Rates are of CPU time, best of several rounds, so that a busy machine disturbs as little as possible; readiness is wall
time, best of several fresh interpreters with compiled modules. The applies are of ApplicationInstance, the largest CRD at hand, with its CEL rules.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from rows import Row, row

from konverge.client import Client
from konverge.client.requests import APPLY, Request
from konverge.client.settings import ClientSettings
from konverge.clock import cpu_time
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call, Query
from konverge_testing.lab import install_crds

ROUNDS: Final = 5
APPLIES: Final = 1500
OBJECTS: Final = 100
COUNT: Final = 20_000
SIZE: Final = 2_500
AT: Final = "/apis/apps.vworkspace.io/v1alpha1/namespaces/default/applicationinstances"
SPEC: Final = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": "default"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}
TIME: Final = "2030-01-01T00:00:00Z"

Send: TypeAlias = Callable[[int], Awaitable[object]]


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    if sys.platform == "linux":
        weight = [in_fresh_process("weight", {})["megabytes"] for _ in range(1)]
        rows = [
            row(f"{COUNT:,} objects", min(weight), "MB RSS", f"ConfigMaps of {SIZE:,} B, the whole process", "<= 400")
        ]
    else:
        rows = []
    rows += readiness()
    rows += asyncio.run(applies())
    return rows


# Ready


def readiness() -> list[Row]:
    """Start servers in fresh interpreters."""
    with tempfile.TemporaryDirectory() as cache:
        more = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        in_fresh_process("ready", more)  # compiles the modules
        results = [in_fresh_process("ready", more) for _ in range(ROUNDS)]
    how = f"best of {ROUNDS} fresh interpreters with compiled modules, from the first import on; RBAC on"
    return [
        row("ready, imports included", min(item["first"] for item in results), "s", f"wall; {how}", "<= 0.3"),
        row("ready, imports included: CPU", min(item["cpu"] for item in results), "s", how),
        row(
            "ready, second server of a process",
            min(item["second"] for item in results) * 1000,
            "ms",
            f"wall; {how}",
            "<= 10",
        ),
    ]


READY: Final = """
import time
began, cpu = time.perf_counter(), time.process_time()
import asyncio, json
from konverge_testing import ApiServer

async def main():
    async with ApiServer():
        first = time.perf_counter() - began
        used = time.process_time() - cpu
    again = time.perf_counter()
    async with ApiServer():
        print(json.dumps({"first": first, "cpu": used, "second": time.perf_counter() - again}))

asyncio.run(main())
"""


def in_fresh_process(what: str, more: dict[str, str]) -> dict[str, float]:
    """Run one part in an interpreter of its own; return its figures."""
    code = (
        READY
        if what == "ready"
        else f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_apiserver as b; b.{what}()"
    )
    environment = {**os.environ, **more}
    if not environment.get("PYTHONDONTWRITEBYTECODE"):
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


# Weight


def weight() -> None:
    """Store objects and print the memory of the process."""
    asyncio.run(_filled())
    gc.collect()


async def _filled() -> None:
    text = "x" * (SIZE - 420)
    async with ApiServer(random=Random(1)) as server:  # uids, no secrets
        headers = {"content-type": "application/json", "user-agent": "bench"}
        path = "/api/v1/namespaces/default/configmaps"
        for number in range(COUNT):
            data = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c{number}"},
                "data": {"text": text, "n": str(number)},
            }
            answer = await server.handle(Call("POST", path, Query([]), headers, msgspec.json.encode(data), ADMIN))
            assert answer.status == 201, answer.body
        gc.collect()
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        print(json.dumps({"megabytes": resident / 1e6, "each": len(answer.body)}))


# Applies


async def applies() -> list[Row]:
    """Apply statuses by three ways in."""
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="bench") as client,
    ):  # uids, no secrets
        await install_crds(client, [crd(ApplicationInstance)])
        for number in range(OBJECTS):
            metadata = {"name": f"a{number}", "namespace": "default"}
            await client.create(ApplicationInstance.decode({"metadata": metadata, "spec": SPEC}))
        transport = server.config().open(ClientSettings(), "bench (konverge)")
        headers = {"accept": "application/json", "user-agent": "bench", "content-type": APPLY}
        query = Query([("fieldManager", "bench"), ("force", "true")])
        bodies = [msgspec.json.encode(status(number)) for number in range(OBJECTS)]

        def body(number: int) -> bytes:
            return bodies[number % OBJECTS].replace(b"revision 0", b"revision %d" % number)

        def path(number: int) -> str:
            return f"{AT}/a{number % OBJECTS}/status"

        def calls(numbers: range) -> list[Call]:
            return [Call("PATCH", path(number), query, headers, body(number), ADMIN) for number in numbers]

        def requests(numbers: range) -> list[Request]:
            return [
                Request(
                    method="PATCH",
                    path=path(number),
                    params=query.pairs,
                    body=body(number),
                    content_type=APPLY,
                    what="apply",
                )
                for number in numbers
            ]

        def intents(numbers: range) -> list[dict[str, Any]]:
            return [msgspec.json.decode(body(number)) for number in numbers]

        how = f"statuses with two new conditions each, of {OBJECTS} objects; CPU time, best of {ROUNDS} rounds of {APPLIES:,}; RBAC on, CEL rules"
        rate = await best(calls, server.handle)
        rows = [row("status applies", rate, "applies/s", f"ApiServer.handle with prepared calls; {how}", ">= 3000")]
        rate = await best(requests, transport.send)
        rows.append(row("status applies over the transport", rate, "applies/s", f"InProcessTransport; {how}"))

        async def apply(intent: dict[str, Any]) -> object:
            return await client.apply(ApplicationInstance, intent, subresource="status", force=True)

        rate = await best(intents, apply)
        rows.append(
            row("status applies by the client", rate, "applies/s", f"Client.apply, to the decoded answer; {how}")
        )
        return rows


_numbers: Iterator[int] = iter(range(1, 1000))


async def best(prepare: Callable[[range], list[Any]], send: Callable[[Any], Awaitable[Any]]) -> float:
    """Return the best rate of some rounds; every request changes something."""
    rates = []
    for _ in range(ROUNDS):
        begin = next(_numbers) * APPLIES
        prepared = prepare(range(begin, begin + APPLIES))
        gc.collect()
        began = cpu_time()
        for item in prepared:
            answer = await send(item)
            assert getattr(answer, "status", 200) != 409
        rates.append(APPLIES / (cpu_time() - began))
    return max(rates)


def status(number: int) -> dict[str, Any]:
    """Return the status that is applied."""
    common = {"status": "True", "reason": "Succeeded", "observedGeneration": 1, "lastTransitionTime": TIME}
    conditions = [
        {"type": "Ready", "message": "revision 0 is installed", **common},
        {"type": "SourceReady", "message": "revision 0 is there", **common},
    ]
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {"name": f"a{number}", "namespace": "default"},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }
