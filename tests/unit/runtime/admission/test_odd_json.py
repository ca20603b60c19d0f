"""Whatever JSON a webhook receives gets a response without a traceback in the log: anyone in the cluster may send to its port."""

import asyncio
import json
from typing import Any

import pytest
from widgets import Widget

import konverge as kv
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.runtime.admission.handler import WebhookServices
from konverge.runtime.admission.responding import AdmissionResponse
from konverge.runtime.admission.router import WebhookRouter

THIN = kind("batch/v1", "CronJob", namespaced=True, plural="cronjobs")
METADATA = '{"name":"one","namespace":"web"}'
DELETING = '{"name":"one","namespace":"web","deletionTimestamp":"2026-01-01T00:00:00Z"}'


def allowed(_: Any) -> kv.Allow:
    return kv.Allow()


def changes(request: Any) -> kv.Allow:
    return kv.Allow(annotations={"seen": request.name})


WEBHOOKS = [
    pytest.param(kv.Webhook.validating(THIN).handled_by(allowed), id="validating"),
    pytest.param(kv.Webhook.mutating(THIN).handled_by(changes), id="mutating"),
    pytest.param(kv.Webhook.validating(Widget).handled_by(allowed), id="validating model"),
    pytest.param(kv.Webhook.mutating(Widget).handled_by(changes), id="mutating model"),
]


def nested(levels: int, *, lists: bool = False) -> str:
    return ("[" * levels + "]" * levels) if lists else '{"a":' * levels + "1" + "}" * levels


def review(object_: str = "null", old: str = "null", **fields: str) -> bytes:
    """A review as text, because Python does not write most of these values as JSON."""
    request = {"uid": '"u1"', "operation": '"UPDATE"', "name": '"one"', "namespace": '"web"', **fields}
    parts = ",".join(f'"{name}":{value}' for name, value in {**request, "object": object_, "oldObject": old}.items())
    head = '"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"'
    return f'{{{head},"request":{{{parts}}}}}'.encode("utf-8", "surrogatepass")


def widget(extra: str, metadata: str = METADATA) -> str:
    head = '"apiVersion":"tests.konverge.dev/v1","kind":"Widget"'
    return f'{{{head},"metadata":{metadata},"spec":{{"parts":1}},"x":{extra}}}'


def ask(webhook: kv.Webhook[Any], body: bytes) -> AdmissionResponse:
    async def read() -> bytes:
        return body

    async def program() -> AdmissionResponse:
        return await WebhookRouter([webhook], WebhookServices(), Metrics()).answer(webhook.path, read)

    return asyncio.run(program())


@pytest.mark.parametrize("lists", [False, True], ids=["mappings", "lists"])
@pytest.mark.parametrize("levels", [9_990, 20_000, 1_000_000])
@pytest.mark.parametrize("webhook", WEBHOOKS)
def test_deep_json_gets_400_and_no_line_in_the_log(
    webhook: kv.Webhook[Any], levels: int, lists: bool, logs: list[Any]
) -> None:
    response = ask(webhook, review(widget(nested(levels, lists=lists))))
    assert (response.status, b"nested deeper than" in response.body) == (400, True)
    assert logs == []


@pytest.mark.parametrize("lists", [False, True], ids=["mappings", "lists"])
@pytest.mark.parametrize("levels", [*range(100, 1_000, 50), 1_000, 3_000, 5_000])
@pytest.mark.parametrize("webhook", WEBHOOKS)
def test_at_no_depth_is_a_trace_logged(webhook: kv.Webhook[Any], levels: int, lists: bool, logs: list[Any]) -> None:
    # Beyond some depth, which depends on the version of Python, an object cannot be traversed.
    deep = widget(nested(levels, lists=lists))
    response = ask(webhook, review(deep, deep))
    assert response.status in ((200,) if levels < 250 else (200, 400))
    assert logs == []


@pytest.mark.parametrize("webhook", WEBHOOKS)
def test_deep_stored_object_can_be_flattened_and_lose_its_finalizers(webhook: kv.Webhook[Any], logs: list[Any]) -> None:
    deep = nested(5_000)
    for new, old in ((widget("1"), widget(deep)), (widget(deep, DELETING), widget(deep, DELETING))):
        response = ask(webhook, review(new, old))
        assert (response.status, json.loads(response.body)["response"]["allowed"]) == (200, True)
    assert ask(webhook, review(old=widget(deep), operation='"DELETE"')).status == 200
    assert logs == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(review(widget("9" * 500)), 200, id="an integer of 500 digits"),
        pytest.param(review(widget("9" * 100_000)), 400, id="an integer of 100,000 digits"),
        pytest.param(review(widget("1e999")), 400, id="a float beyond its range"),
        pytest.param(review(widget("NaN")), 400, id="NaN"),
        pytest.param(review(widget("Infinity")), 400, id="Infinity"),
        pytest.param(review(widget('"\\ud800"')), 400, id="an escaped lone surrogate"),
        pytest.param(review(widget('"\ud800"')), 400, id="an encoded lone surrogate"),
        pytest.param(review(widget('"X"')).replace(b"X", b"\xff"), 400, id="no UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + review(widget("1")), 400, id="a byte order mark"),
        pytest.param(review(widget("1")).decode().encode("utf-16"), 400, id="UTF-16"),
        pytest.param(b"\x1f\x8b\x08\x00" + review(widget("1")), 400, id="gzip"),
        pytest.param(review(widget("1")) + b"}", 400, id="a bracket too many"),
        pytest.param(review(widget("1"))[:-5], 400, id="cut"),
        pytest.param(b"\x00" * 100, 400, id="zeros"),
        pytest.param(review(widget('{"a":1,"a":2}')), 200, id="a key twice"),
        pytest.param(review(widget('"' + "a" * 5_000_000 + '"')), 200, id="a string of 5 MB"),
        pytest.param(review(widget('"\\u0000"')), 200, id="a zero character"),
        pytest.param(review("[]"), 400, id="a list for an object"),
        pytest.param(review('"text"'), 400, id="a text for an object"),
        pytest.param(review("7"), 400, id="a number for an object"),
        pytest.param(review("{}", "[]"), 400, id="a list for the old object"),
        pytest.param(review(widget("1"), uid="[]"), 400, id="a list for the uid"),
        pytest.param(review(widget("1"), userInfo="[]"), 400, id="a list for the user"),
        pytest.param(review(widget("1"), userInfo='{"extra":{"a":7}}'), 400, id="a number for an extra"),
        pytest.param(review(widget("1"), options='"x"'), 400, id="a text for the options"),
        pytest.param(review(widget("1"), options=nested(20_000)), 400, id="deep options"),
        pytest.param(review(widget("1"), dryRun='"yes"'), 400, id="a text for dryRun"),
    ],
)
@pytest.mark.parametrize("webhook", WEBHOOKS)
def test_odd_json_gets_a_response_and_no_line_in_the_log(
    webhook: kv.Webhook[Any], body: bytes, status: int, logs: list[Any]
) -> None:
    response = ask(webhook, body)
    assert response.status == status, response.body[:200]
    assert len(response.body) < 2_000
    assert logs == []


@pytest.mark.parametrize(
    "metadata", ["[]", '"x"', "7", "null", "{}", '{"name":7}', '{"labels":[]}', '{"annotations":{"a":7}}', nested(5)]
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize("webhook", WEBHOOKS)
def test_odd_metadata_gets_a_response_and_no_line_in_the_log(
    webhook: kv.Webhook[Any], operation: str, metadata: str, logs: list[Any]
) -> None:
    object_ = widget("1", metadata)
    response = ask(webhook, review(object_, object_, operation=f'"{operation}"'))
    assert response.status in (200, 400)
    assert logs == []
