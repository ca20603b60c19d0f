"""From a request to a response, whatever the handler does. Time here is virtual."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from widgets import CONFIG_MAP, SECRET, Widget, WidgetSpec

import konverge as kv
from konverge.errors import CacheNotWatched, UsageError
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.runtime.admission.handler import WebhookGate, WebhookServices
from konverge.runtime.admission.responding import AdmissionResponse
from konverge.runtime.admission.review import NoReview
from konverge.runtime.admission.router import WebhookRouter
from konverge_testing import admit

VALIDATING = kv.Webhook.validating(Widget)
MUTATING = kv.Webhook.mutating(Widget)
SECRETIVE = "the password is hunter2"


def review(spec: dict[str, Any] | None = None, *, operation: str = "CREATE", **more: Any) -> bytes:
    metadata = {"name": "one", "namespace": "web", **more.pop("metadata", {})}
    shown = {
        "apiVersion": "tests.konverge.dev/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": spec or {"parts": 1},
    }
    request = {"uid": "u1", "operation": operation, "name": "one", "namespace": "web", "object": shown, **more}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def ask(
    webhook: kv.Webhook[Any],
    body: bytes | None = None,
    *,
    metrics: Metrics | None = None,
    services: WebhookServices | None = None,
    **more: Any,
) -> AdmissionResponse:
    async def read() -> bytes:
        return review() if body is None else body

    return await WebhookRouter([webhook], services or WebhookServices(), metrics or Metrics()).answer(
        webhook.path, read, **more
    )


def response(answer: AdmissionResponse) -> dict[str, Any]:
    assert (answer.status, answer.content_type) == (200, "application/json")
    found: dict[str, Any] = json.loads(answer.body)["response"]
    assert found.pop("uid") == "u1"
    return found


def count(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


# --- handlers' responses ------------------------------------------------------------------------------------------------------


async def yes(_: Any) -> kv.Allow:
    return kv.Allow()


def plainly(_: Any) -> kv.Allow:
    return kv.Allow()


@pytest.mark.parametrize("handler", [yes, plainly])
async def test_a_handler_is_a_coroutine_function_or_a_plain_one(handler: Any) -> None:
    assert response(await ask(VALIDATING.handled_by(handler))) == {"allowed": True}


async def test_a_mutating_handler_may_change_the_object_in_its_hands() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        request.object.spec.parts = 5
        return kv.Allow()

    answer = await admit(MUTATING.handled_by(handler), Widget.new("one", spec=WidgetSpec(parts=1)))
    assert answer.patch == ({"op": "replace", "path": "/spec/parts", "value": 5},)


async def test_a_mutating_handler_may_return_another_object() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        return kv.Allow(Widget.new(request.name, request.namespace, spec=WidgetSpec(parts=5)), annotations={"a": "b"})

    answer = await admit(MUTATING.handled_by(handler), Widget.new("one", "web", spec=WidgetSpec(parts=1, mode="odd")))
    assert answer.object is not None
    assert answer.object.to_dict()["spec"] == {"parts": 5}
    assert answer.object.annotations == {"a": "b"}


async def test_fields_that_a_model_does_not_know_survive_its_change() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        request.object.spec.mode = "other"
        return kv.Allow()

    body = review(
        {"parts": 1, "later": {"x": 1}}, metadata={"managedFields": [{"manager": "kubectl"}], "generateName": "one-"}
    )
    patch = response(await ask(MUTATING.handled_by(handler), body))["patch"]
    import base64

    assert json.loads(base64.b64decode(patch)) == [{"op": "add", "path": "/spec/mode", "value": "other"}]


async def test_a_thin_kind_is_changed_in_its_dict() -> None:
    def handler(request: kv.AdmissionRequest[kv.Object]) -> kv.Allow:
        request.object.data["data"] = {"a": "1"}
        return kv.Allow(labels={"seen": "yes"})

    answer = await admit(kv.Webhook.mutating(CONFIG_MAP).handled_by(handler), CONFIG_MAP.new("one", "web"))
    assert answer.object is not None
    assert (answer.object.get("data", "a"), answer.object.metadata.label("seen")) == ("1", "yes")


async def test_a_deletion_shows_the_old_object_alone() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Deny | kv.Allow:
        with pytest.raises(UsageError, match="DELETE has no object"):
            _ = request.object
        assert request.old is not None
        return kv.Deny("it has parts", code=409) if request.old.spec.parts else kv.Allow()

    webhook = VALIDATING.on("DELETE").handled_by(handler)
    denied = await admit(webhook, old=Widget.new("one", spec=WidgetSpec(parts=1)))
    assert (denied.allowed, denied.code, denied.reason, denied.message) == (False, 409, "Conflict", "it has parts")
    assert (await admit(webhook, old=Widget.new("one"))).allowed


# --- failures -----------------------------------------------------------------------------------------------------------------


async def raises(_: Any) -> kv.Allow:
    raise ValueError(SECRETIVE)


async def sleeps(_: Any) -> kv.Allow:
    await asyncio.sleep(3600)
    return kv.Allow()


async def times_out_elsewhere(_: Any) -> kv.Allow:
    raise TimeoutError


async def says_nothing(_: Any) -> kv.Allow:
    return None  # type: ignore[return-value]  # the mistake under test


async def changes(_: Any) -> kv.Allow:
    return kv.Allow(labels={"a": "b"})


FAILURES = [
    pytest.param(raises, "raised ValueError", 1, id="raises"),
    pytest.param(sleeps, "did not answer within 9 s", 0, id="sleeps"),
    pytest.param(times_out_elsewhere, "raised TimeoutError", 1, id="meets a timeout of its own"),
    pytest.param(says_nothing, "raised UsageError", 1, id="returns no verdict"),
    pytest.param(changes, "raised UsageError", 1, id="changes what it may only look at"),
]


@pytest.mark.parametrize(("handler", "words", "panics"), FAILURES)
async def test_a_failure_gets_no_answer_if_the_webhook_says_fail(
    handler: Any, words: str, panics: int, logs: list[Any]
) -> None:
    metrics = Metrics()
    answer = await ask(VALIDATING.handled_by(handler), metrics=metrics)
    assert (answer.status, answer.content_type) == (500, "text/plain; charset=utf-8")
    assert answer.body.decode() == f"webhook validate.widgets.tests.konverge.dev {words}; see the log of the operator\n"
    assert count(metrics, "controller_runtime_webhook_panics_total") == panics
    assert count(metrics, "controller_runtime_webhook_requests_total", webhook=VALIDATING.path, code="500") == 1
    told = [line for line in logs if line["event"] == "a webhook failed"]
    assert [(line["webhook"], line["key"], line["error"]) for line in told] == [(VALIDATING.path, "web/one", words)]


@pytest.mark.parametrize(("handler", "words", "panics"), FAILURES)
async def test_webhook_failure_admits_the_write_with_a_warning_under_policy_ignore(
    handler: Any, words: str, panics: int, logs: list[Any]
) -> None:
    metrics = Metrics()
    answer = await ask(VALIDATING.ignoring_failures().handled_by(handler), metrics=metrics)
    warning = f"webhook validate.widgets.tests.konverge.dev {words} and was ignored"
    assert response(answer) == {"allowed": True, "warnings": [warning]}
    assert count(metrics, "controller_runtime_webhook_panics_total") == panics


async def test_an_exception_of_a_handler_goes_to_the_log_alone(logs: list[Any]) -> None:
    answer = await ask(VALIDATING.handled_by(raises))
    assert SECRETIVE not in answer.body.decode()
    assert any(SECRETIVE in line.get("stack", "") for line in logs)


async def test_a_half_made_change_of_a_failed_handler_is_not_kept(logs: list[Any]) -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        request.object.spec.parts = 5
        raise ValueError

    assert "patch" not in response(await ask(MUTATING.ignoring_failures().handled_by(handler)))


@pytest.mark.parametrize(("timeout", "limit"), [("", 9.0), ("5s", 4.5), ("30s", 9.0), ("nonsense", 9.0)])
async def test_time_limit_is_nine_tenths_of_the_servers_and_at_most_declared(
    timeout: str, limit: float, logs: list[Any]
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await ask(VALIDATING.handled_by(sleeps), timeout=timeout)
    assert answer.status == 500
    assert loop.time() - began == pytest.approx(limit)


async def test_requests_wait_for_the_caches_within_their_time(logs: list[Any]) -> None:
    class Shut(WebhookGate):
        async def open(self, webhook: kv.Webhook[Any]) -> None:
            await asyncio.sleep(7)

    assert (await ask(VALIDATING.handled_by(yes), services=WebhookServices(gate=Shut()))).status == 200
    assert (await ask(VALIDATING.within(5).handled_by(yes), services=WebhookServices(gate=Shut()))).status == 500


async def test_admit_raises_what_a_server_contains(logs: list[Any]) -> None:
    with pytest.raises(ValueError, match="hunter2"):
        await admit(VALIDATING.ignoring_failures().handled_by(raises), Widget.new("one"))


# --- objects that do not fit their model --------------------------------------------------------------------------------------

ODD = {"parts": "many"}


async def never(_: Any) -> kv.Allow:
    raise AssertionError("it was asked")


async def test_malformed_object_passes_a_mutating_webhook_and_its_schema_refuses_it() -> None:
    assert response(await ask(MUTATING.handled_by(never), review(ODD))) == {"allowed": True}


async def test_an_odd_object_is_refused_by_a_validating_webhook_with_the_path() -> None:
    refused = response(await ask(VALIDATING.handled_by(never), review(ODD)))
    assert (refused["allowed"], refused["status"]["code"]) == (False, 422)
    assert refused["status"]["details"]["causes"][0]["field"] == ".spec.parts"


async def test_an_odd_object_that_is_being_deleted_may_lose_its_finalizers() -> None:
    body = review(ODD, operation="UPDATE", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    assert response(await ask(VALIDATING.handled_by(never), body)) == {"allowed": True}


async def test_an_odd_object_that_is_stored_already_can_be_mended() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        assert request.old is not None
        return kv.Allow(warnings=(request.old.name,))

    old = {"apiVersion": "tests.konverge.dev/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": ODD}
    answer = await ask(VALIDATING.handled_by(handler), review(operation="UPDATE", oldObject=old))
    assert response(answer) == {"allowed": True, "warnings": ["one"]}


# --- effects, dry runs, caches ------------------------------------------------------------------------------------------------


async def asks_for_the_client(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
    _ = request.client
    return kv.Allow()


@pytest.mark.parametrize(
    ("webhook", "dry_run", "words"),
    [
        (VALIDATING, False, "declared no side effects"),
        (VALIDATING.with_effects(), True, "this is a dry run"),
        (VALIDATING.with_effects(), False, "has no API server here"),
    ],
)
async def test_effects_are_refused_unless_declared_and_in_earnest(
    webhook: kv.Webhook[Widget], dry_run: bool, words: str, logs: list[Any]
) -> None:
    with pytest.raises(UsageError, match=words):
        await admit(webhook.handled_by(asks_for_the_client), Widget.new("one"), dry_run=dry_run)


async def test_a_handler_knows_who_writes_and_whether_it_is_a_dry_run() -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Deny:
        return kv.Deny(f"{request.user.name} {request.user.groups} {request.dry_run} {request.options}")

    answer = await admit(
        VALIDATING.handled_by(handler), Widget.new("one"), user="jane", groups=["dev"], dry_run=True, options={"a": 1}
    )
    assert answer.message == "jane ('dev',) True {'a': 1}"


async def test_a_handler_reads_the_caches_that_it_declared_and_no_others(logs: list[Any]) -> None:
    def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        found = request.cache(CONFIG_MAP).list(request.namespace)
        return kv.Allow(warnings=tuple(one.name for one in found))

    webhook = VALIDATING.reads(CONFIG_MAP).handled_by(handler)
    here, there = CONFIG_MAP.new("here", "web"), CONFIG_MAP.new("there", "other")
    assert (await admit(webhook, Widget.new("one", "web"), cache=[here, there])).warnings == ("here",)
    with pytest.raises(UsageError, match="does not read Secret"):
        await admit(webhook, Widget.new("one", "web"), cache=[SECRET.new("s", "web")])
    with pytest.raises(CacheNotWatched, match=r"add \.reads\(CONFIGMAP\) to it, or read live with request\.live"):
        await admit(VALIDATING.handled_by(handler), Widget.new("one", "web"))


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (None, Widget.new("one"), "is not asked about DELETE, only about CREATE, UPDATE"),
        (CONFIG_MAP.new("one"), None, "is about Widget.tests.konverge.dev"),
    ],
)
async def test_admit_refuses_what_would_never_be_asked(new: Any, old: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        await admit(VALIDATING.handled_by(never), new, old=old)


# --- at the door --------------------------------------------------------------------------------------------------------------


async def test_a_path_without_a_handler_is_not_found() -> None:
    async def read() -> bytes:
        raise AssertionError("it was read")

    answer = await WebhookRouter([VALIDATING.handled_by(yes)], WebhookServices(), Metrics()).answer("/other", read)
    assert (answer.status, answer.body) == (
        404,
        b"no webhook is served under /other; the configuration and this operator differ in version\n",
    )


async def test_another_content_type_is_refused_and_counted() -> None:
    metrics = Metrics()
    answer = await ask(VALIDATING.handled_by(yes), metrics=metrics, content_type="text/plain")
    assert answer.status == 415
    assert count(metrics, "controller_runtime_webhook_requests_total", webhook=VALIDATING.path, code="415") == 1


async def test_a_body_other_than_a_review_is_refused_and_counted() -> None:
    metrics = Metrics()
    answer = await ask(VALIDATING.handled_by(yes), b"{}", metrics=metrics)
    assert answer.status == 400
    assert isinstance(answer.error, NoReview)
    assert count(metrics, "controller_runtime_webhook_requests_total", webhook=VALIDATING.path, code="400") == 1


async def test_series_exist_before_the_first_request_and_follow_it() -> None:
    metrics = Metrics()
    seen: list[float | None] = []
    path = VALIDATING.path

    async def handler(_: Any) -> kv.Allow:
        seen.append(count(metrics, "controller_runtime_webhook_requests_in_flight", webhook=path))
        await asyncio.sleep(2)
        return kv.Allow()

    webhook = VALIDATING.handled_by(handler)
    WebhookRouter([webhook], WebhookServices(), metrics)
    for code in ("200", "500"):
        assert count(metrics, "controller_runtime_webhook_requests_total", webhook=path, code=code) == 0
    await ask(webhook, metrics=metrics)
    assert seen == [1]
    assert count(metrics, "controller_runtime_webhook_requests_in_flight", webhook=path) == 0
    assert count(metrics, "controller_runtime_webhook_requests_total", webhook=path, code="200") == 1
    assert count(metrics, "controller_runtime_webhook_latency_seconds_sum", webhook=path) == pytest.approx(2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("a/", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["metadata", "spec", "parts", "a"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = st.sampled_from(
    ["uid", "operation", "object", "oldObject", "userInfo", "options", "dryRun", "name", "kind", "subResource"]
)


@given(changes=st.dictionaries(FIELDS, JSON, max_size=3), mutates=st.booleans())
def test_whatever_comes_is_answered_and_never_raises(changes: dict[str, Any], mutates: bool) -> None:
    def handler(request: kv.AdmissionRequest[kv.Object]) -> kv.Allow:
        if mutates and request.new is not None:
            request.object.data["spec"] = {"set": True}
        return kv.Allow()

    thin = kind("tests.konverge.dev/v1", "Widget")
    webhook = (kv.Webhook.mutating(thin) if mutates else kv.Webhook.validating(thin)).handled_by(handler)
    with structlog.testing.capture_logs(), asyncio.Runner() as runner:
        answer = runner.run(ask(webhook, altered(changes)))
    assert answer.status in (200, 400, 500)
    assert answer.status != 500 or answer.error is not None


def altered(changes: dict[str, Any]) -> bytes:
    whole = json.loads(review())
    whole["request"].update(changes)
    return json.dumps(whole).encode()


def test_a_webhook_without_a_handler_is_refused() -> None:
    with pytest.raises(UsageError, match=r"end its sentence with \.handled_by"):
        WebhookRouter([VALIDATING], WebhookServices(), Metrics())


async def test_a_kind_without_a_model_reads_what_is_stored_as_it_is() -> None:
    def handler(request: kv.AdmissionRequest[kv.Object]) -> kv.Allow:
        assert request.old is not None
        return kv.Allow(warnings=(str(request.old.get("spec", "parts")),))

    thin = kind("tests.konverge.dev/v1", "Widget")
    webhook = kv.Webhook.validating(thin).on("UPDATE").handled_by(handler)
    answer = await admit(webhook, thin.new("one"), old=thin.new("one", spec=ODD))
    assert answer.warnings == ("many",)
