"""LimitRanges as a real server kept and enforced them (see `tools/record/admission/limits.py`): every step's response, through the whole
server.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from record.admission.hooks import answered as hook_answer
from record.admission.limits_world import INJECTED, shown

from konverge_testing import ApiServer
from konverge_testing.apiserver.admission import Handler
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.apiserver.shells import answered

Data = dict[str, Any]

RECORDED: dict[str, list[Data]] = json.loads(Path(__file__).with_name("recorded_limits.json").read_text())
ADDRESS = "https://hooks.example.com"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def _server(namespace: str) -> ApiServer:
    return ApiServer(random=random.Random(1), service_accounts="off", namespaces=[namespace])


async def _ask(server: ApiServer, method: str, path: str, body: Data | None = None) -> tuple[int, Data]:
    call = Call.of(method, path, b"" if body is None else json.dumps(body).encode())
    call.user = ADMIN
    call.headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    answer = await answered(server.handle, call)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - {INJECTED}))
async def test_limit_ranges_default_and_bound_as_on_a_real_server(name: str) -> None:
    heavy = {"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "1"}}}
    async with _server(name) as server:
        await _ask(server, "POST", "/apis/node.k8s.io/v1/runtimeclasses", heavy)
        for number, step in enumerate(RECORDED[name]):
            path = f"/api/v1/namespaces/{name}/{step['path']}"
            status, found = await _ask(server, step["method"], path, step.get("body"))
            assert (status, shown(found)) == (step["status"], step["answer"]), f"step {number}: {step}"


@pytest.mark.parametrize("case", RECORDED[INJECTED], ids=lambda case: case["name"])
async def test_fields_added_by_a_webhook_are_defaulted_as_on_a_real_server(case: Data) -> None:
    asked: list[Any] = []

    def handler(path: str) -> Handler:
        async def handle(review: Data) -> Data:
            asked.append([f"{path}?timeout=10s", shown(review["request"]["object"])])
            found = hook_answer(case["behaviour"], review, path)
            assert found is not None
            return found

        return handle

    async with _server(INJECTED) as server:
        made = RECORDED["defaults"][0]
        await _ask(server, "POST", f"/api/v1/namespaces/{INJECTED}/limitranges", made["body"])
        server.webhooks.update({f"{ADDRESS}{path}": handler(path) for path in ("/one", "/two")})
        hooks = json.loads(json.dumps(case["webhooks"]).replace("ADDRESS", ADDRESS).replace('"BUNDLE"', "null"))
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        status, found = await _ask(server, "POST", HOOKS, {**head, "metadata": {"name": "probe"}, "webhooks": hooks})
        assert status == 201, found
        status, found = await _ask(server, *case["request"])
        assert (status, shown(found)) == (case["status"], case["answer"])
        assert asked == case["asked"]
