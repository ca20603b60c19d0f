"""Record a real kube-apiserver's handling of LimitRanges for pods and claims, for the unit tests.

Run it by hand after a new version of Kubernetes: `make record ONLY=admission.limits`. It starts a kube-apiserver of its own,
without controllers, writes `recorded_limits.json` beside the tests of the room `admission`, and takes about half a minute.

The steps by their namespace are the file itself, without the responses; a new case is a step without `status` and `answer`.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from record.admission.limits_world import INJECTED, LIMIT_HOOKS, shown
from record.admission.plane import Server, pause
from record.admission.recorder import ask_with_webhooks

from konverge_testing.config import ControlPlaneConfig
from konverge_testing.plane import Plane

FILE = Path(__file__).resolve().parents[3] / "testkit/tests/unit/apiserver/admission/recorded_limits.json"
SECONDS = 1.0
"""Seconds until a server knows a new LimitRange."""

Data = dict[str, Any]


def record(server: Server, namespace: str, steps: list[Data]) -> list[Data]:
    """Do the steps of a case, and return them with the responses."""
    server.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    results = []
    for step in steps:
        headers = [("Content-Type", "application/merge-patch+json")] if step["method"] == "PATCH" else []
        path = f"/api/v1/namespaces/{namespace}/{step['path']}"
        status, document = server.ask(step["method"], path, step.get("body"), headers)
        results.append({**step, "status": status, "answer": shown(document)})
        if "limitranges" in step["path"] and step["method"] != "GET" and status < 300:
            pause(SECONDS)
    return results


def record_hooks(server: Server, limit_range: Data) -> list[Data]:
    """Create pods that webhooks change, in a namespace with this LimitRange."""
    record(server, INJECTED, [limit_range])
    result = asyncio.run(ask_with_webhooks(server, LIMIT_HOOKS))
    return [
        {
            **{key: value for key, value in case.items() if key not in ("asked", "old")},
            "answer": shown(case["answer"]),
            "asked": [[item["target"], shown(item["review"]["request"]["object"])] for item in case["asked"]],
        }
        for case in result
    ]


def main() -> None:
    """Record everything."""
    recorded = json.loads(FILE.read_text())
    del recorded[INJECTED]
    plane = Plane(ControlPlaneConfig())
    plane.start()
    try:
        server = Server(plane)
        heavy = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}}
        given = {**heavy, "handler": "heavy", "overhead": {"podFixed": {"cpu": "1"}}}
        server.make("/apis/node.k8s.io/v1/runtimeclasses", given)
        pause(SECONDS)
        result = {namespace: record(server, namespace, steps) for namespace, steps in recorded.items()}
        result[INJECTED] = record_hooks(server, recorded["defaults"][0])
    finally:
        plane.stop()
    lines = [
        f"{json.dumps(namespace)}: [\n" + ",\n".join(json.dumps(step, separators=(",", ":")) for step in steps) + "\n]"
        for namespace, steps in result.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(FILE.name, sum(map(len, result.values())), "steps")


if __name__ == "__main__":
    main()
