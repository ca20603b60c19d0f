"""A manager's webhooks between clients and storage, on the API server in memory and in virtual time."""

import asyncio
import socket
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, WidgetSpec, widget

import konverge as kv
from konverge.errors import ApiError, Forbidden, ServerFailure
from konverge.runtime import State
from konverge.runtime.admission.configurations import VALIDATING as CONFIGURATION
from konverge.runtime.admission.settings import place_of
from konverge.runtime.http.health import checks_of
from konverge_testing import Lab
from konverge_testing.lab import explore

pytestmark = pytest.mark.usefixtures("logs")


def few(request: kv.AdmissionRequest[Widget]) -> kv.Allow | kv.Deny:
    if request.object.spec.parts > 3:
        return kv.Deny("at most three parts")
    return kv.Allow()


def marked(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
    request.object.spec.mode = "marked"
    return kv.Allow()


async def nothing(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Made", "as asked")
    return kv.Done()


VALIDATING, MUTATING = kv.Webhook.validating(Widget), kv.Webhook.mutating(Widget)


def build_of(*webhooks: kv.Webhook[Any]) -> Any:
    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).reconciled_by(By(nothing)))
        for webhook in webhooks:
            manager.add(webhook)

    return build


async def test_writes_go_through_the_webhooks_of_a_build(lab: Lab) -> None:
    await lab.start(build_of(VALIDATING.handled_by(few), MUTATING.handled_by(marked)))
    assert (await lab.create(widget(parts=1))).spec.mode == "marked"
    with pytest.raises(
        Forbidden,
        match=r'admission webhook "validate\.widgets\.tests\.konverge\.dev" denied the request: at most three',
    ):
        await lab.create(widget("two", parts=4))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    with pytest.raises(Forbidden, match="at most three parts"):
        await lab.patch(Widget, "one", {"spec": {"parts": 4}})


async def test_the_status_of_our_own_controllers_does_not_go_through_a_webhook(lab: Lab) -> None:
    asked: list[str] = []

    def note(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        asked.append(f"{request.operation} {request.subresource}".strip())
        return kv.Allow()

    await lab.start(build_of(VALIDATING.handled_by(note)))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    assert asked == ["CREATE"]


async def test_a_status_webhook_is_asked_about_the_status_alone(lab: Lab) -> None:
    asked: list[str] = []

    def note(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        asked.append(f"{request.operation} {request.subresource} {request.user.name}")
        return kv.Allow()

    await lab.start(build_of(VALIDATING.on("UPDATE", subresource="status").handled_by(note)))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    assert [words.rpartition(" ")[0] for words in asked] == ["UPDATE status"]


async def fails(_: Any) -> kv.Allow:
    raise ValueError("a bug")


async def sleeps(_: Any) -> kv.Allow:
    await asyncio.sleep(3600)
    return kv.Allow()


@pytest.mark.parametrize(
    ("handler", "error", "words", "seconds"),
    [(fails, ValueError, "raised ValueError", 0.0), (sleeps, TimeoutError, "did not answer within 4.5 s", 4.5)],
)
async def test_a_webhook_that_fails_refuses_or_lets_pass_as_it_says(
    lab: Lab, handler: Any, error: type[Exception], words: str, seconds: float
) -> None:
    lab.expects(error)
    await lab.start(build_of(VALIDATING.within(5).handled_by(handler)))
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(ServerFailure, match=words) as refused:
        await lab.create(widget())
    assert 'failed calling webhook "validate.widgets.tests.konverge.dev"' in str(refused.value)
    assert loop.time() - began >= seconds


async def test_a_webhook_that_ignores_failures_lets_the_write_pass(lab: Lab, logs: list[Any]) -> None:
    lab.expects(ValueError, "a bug")
    await lab.start(build_of(VALIDATING.ignoring_failures().handled_by(fails)))
    assert (await lab.create(widget())).name == "one"
    assert [line["event"] for line in logs if line["event"] == "a webhook failed"] == ["a webhook failed"]


async def test_stored_failure_policy_applies_if_the_webhook_does_not_respond(lab: Lab) -> None:
    lab.expects(ValueError, "a bug")
    await lab.start(build_of(VALIDATING.handled_by(fails)))
    found = await lab.client.get(CONFIGURATION, f"lab-{lab.namespace}")
    found.data["webhooks"][0]["failurePolicy"] = "Ignore"
    await lab.client.replace(found)
    assert (await lab.create(widget())).name == "one"


async def test_a_dry_run_asks_and_stores_nothing(lab: Lab) -> None:
    seen: list[bool] = []

    async def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        seen.append(request.dry_run)
        if not request.dry_run:
            await request.client.create(CONFIG_MAP.new(f"for-{request.name}", request.namespace))
        return kv.Allow()

    creates = kv.Rule("", ("configmaps",), ("create",))
    await lab.start(build_of(VALIDATING.with_effects().needs(creates).handled_by(handler)))
    made = Widget.new("one", lab.namespace, spec=WidgetSpec(parts=1))
    await lab.client.create(made, dry_run=True)
    assert await lab.find(CONFIG_MAP, "for-one") is None
    await lab.client.create(made)
    assert await lab.find(CONFIG_MAP, "for-one") is not None
    assert seen == [True, False]


async def test_handlers_read_caches_and_live(lab: Lab) -> None:
    async def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow | kv.Deny:
        cached = request.cache(CONFIG_MAP).find(request.namespace, "limits")
        live = await request.live(SECRET).find(request.namespace, "key")
        return kv.Deny(f"cached: {cached is not None}, live: {live is not None}")

    await lab.create(CONFIG_MAP.new("limits"))
    await lab.create(SECRET.new("key"))
    gets = kv.Rule("", ("secrets",), ("get",))
    await lab.start(build_of(VALIDATING.reads(CONFIG_MAP).needs(gets).handled_by(handler)))
    with pytest.raises(Forbidden, match="cached: True, live: True"):
        await lab.create(widget())


async def test_an_operator_that_is_down_refuses_what_it_should_have_checked(lab: Lab) -> None:
    await lab.start(build_of(VALIDATING.handled_by(few)))
    await lab.stop()
    with pytest.raises(ServerFailure, match="connection refused"):
        await lab.create(widget())


async def test_a_successor_answers_after_a_crash(lab: Lab) -> None:
    await lab.start(build_of(VALIDATING.handled_by(few)))
    lab.crash()
    with pytest.raises(ServerFailure, match="connection refused"):
        await lab.create(widget())
    await lab.manager.wait_ready()
    assert (await lab.create(widget())).name == "one"


async def test_two_replicas_answer_under_one_name(lab: Lab) -> None:
    build = build_of(VALIDATING.handled_by(few))
    first = await lab.start(build)
    await lab.start(build)
    await first.stop()
    assert (await lab.create(widget())).name == "one"


async def test_cache_of_an_unserved_kind_affects_only_webhook_readiness(lab: Lab) -> None:
    lab.expects(TimeoutError)
    gone = kv.kind("gone.example.com/v1", "Gone")
    other = MUTATING.handled_by(marked)
    manager = await lab.start(build_of(VALIDATING.reads(gone).handled_by(few), other), absent=[gone])
    await asyncio.sleep(30)
    report = manager.report()
    assert report.of("widget").ready
    assert not report
    assert report.webhooks is not None
    assert "the cluster serves no Gone" in report.webhooks.why
    with pytest.raises(ServerFailure, match=r"webhook validate\..* did not answer within 9 s"):
        await lab.create(widget())


async def crashing(lab: Lab) -> None:
    """A user's writes while the operator crashes at every write: the webhook's failure policy is Ignore, so nothing depends on it."""
    lab.may_differ(Widget, "spec.mode", why="it is set only if the webhook can be called")
    await lab.start(build_of(MUTATING.ignoring_failures().handled_by(marked)))
    await lab.create(widget(parts=1))
    await lab.until(Widget, "one", kv.is_true("Ready"))


def test_with_a_webhook_in_the_way_every_fault_is_survived() -> None:
    report = explore(crashing, mode="quick", seed=1, budget=20, workers=1, strict=False)
    assert report.passed, report.text()


async def test_where_one_handler_reads_whole_objects_all_do(lab: Lab) -> None:
    def names(request: kv.AdmissionRequest[Widget]) -> kv.Allow | kv.Deny:
        return kv.Allow() if request.cache(CONFIG_MAP).find(request.namespace, "limits") else kv.Deny("no limits")

    def content(request: kv.AdmissionRequest[Widget]) -> kv.Deny:
        return kv.Deny(str(request.cache(CONFIG_MAP).get(request.namespace, "limits").get("data", "most")))

    await lab.create(CONFIG_MAP.new("limits", data={"most": "seven"}))
    first = VALIDATING.named("names").reads(CONFIG_MAP, metadata_only=True).handled_by(names)
    await lab.start(build_of(first, VALIDATING.named("content").reads(CONFIG_MAP).handled_by(content)))
    with pytest.raises(Forbidden, match="seven"):
        await lab.create(widget())


# --- a server of its own ------------------------------------------------------------------------------------------------------


def settings(lab: Lab, port: int, **more: Any) -> kv.ManagerSettings:
    address = f"127.0.0.1:{port}"
    webhooks = kv.WebhookSettings(address=address, url=f"https://{address}", secret=f"{lab.namespace}/certs", **more)
    return kv.ManagerSettings(namespace=lab.namespace, strict=True, webhooks=webhooks)


async def test_a_taken_port_degrades_the_webhooks_alone_until_it_is_free(lab: Lab, logs: list[Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        manager = await lab.start(
            build_of(VALIDATING.handled_by(few)), settings=settings(lab, port), wait=False, crds=True
        )
        await asyncio.sleep(15)
        report = manager.report()
        assert report.of("widget").ready
        assert report.webhooks is not None
        assert report.webhooks.state is State.STARTING
        assert f"cannot listen on 127.0.0.1:{port} for webhooks: Address already in use" in report.webhooks.why
        assert [check.name for check in checks_of(report) if not check.ok] == ["webhooks"]
    await asyncio.sleep(600)
    assert manager.report().ready
    assert manager.admission.address == f"https://127.0.0.1:{port}"
    told = [line["event"] for line in logs if "webhooks" in line["event"]]
    assert told == ["the webhooks are not as they should be", "webhooks are served"], "once each, not at every look"


async def test_a_later_failure_is_reported_and_takes_no_replica_out_of_service(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    manager = await lab.start(build_of(VALIDATING.handled_by(few)), settings=settings(lab, port))
    await lab.client.delete(CONFIGURATION, "lab")
    await asyncio.sleep(65)
    report = manager.report()
    assert report.ready
    assert report.webhooks is not None
    assert "there is no ValidatingWebhookConfiguration lab" in report.webhooks.last_error
    (check,) = [one for one in checks_of(report) if one.name == "webhooks"]
    assert "apply what `konverge webhooks` prints" in check.line()


async def test_a_stopped_manager_looks_after_its_webhooks_no_more(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    await lab.start(build_of(VALIDATING.handled_by(few)), settings=settings(lab, port))
    await lab.stop()
    await asyncio.sleep(600)
    assert [task.get_name() for task in asyncio.all_tasks() if "webhooks" in task.get_name()] == []


async def test_the_certificate_in_use_is_renewed_in_time(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chosen = settings(lab, port, certificate_days=0.1)
    manager = await lab.start(build_of(VALIDATING.handled_by(few)), settings=chosen)
    certificate = (await lab.get(SECRET, "certs")).data["data"]["tls.crt"]
    await asyncio.sleep(0.07 * 86400)
    assert (await lab.get(SECRET, "certs")).data["data"]["tls.crt"] != certificate
    assert manager.report().ready
    await lab.stop()
    assert manager.report().webhooks is not None
    assert manager.admission.state is State.STOPPED


def test_webhooks_are_found_by_their_place() -> None:
    assert place_of("lab", kv.WebhookSettings(url="https://lab.example.com")).secret == ("", "lab-webhooks")


async def test_a_webhook_cannot_be_added_to_a_running_manager(lab: Lab) -> None:
    manager = await lab.start(build_of())
    with pytest.raises(kv.KonvergeError, match="before the manager is started"):
        manager.add(VALIDATING.handled_by(few))


async def test_a_webhook_is_removed_by_its_path_before_the_start_alone(lab: Lab) -> None:
    def build(manager: kv.Manager) -> None:
        build_of(VALIDATING.handled_by(few), MUTATING.handled_by(marked))(manager)

    apart = kv.Manager("apart")
    build(apart)
    await apart.remove(VALIDATING.path)
    assert [webhook.path for webhook in apart.webhooks] == [MUTATING.path]
    with pytest.raises(LookupError):
        await apart.remove(VALIDATING.path)
    manager = await lab.start(build)
    with pytest.raises(kv.KonvergeError, match="is served"):
        await manager.remove(VALIDATING.path)


async def test_only_objects_of_the_managers_namespace_are_asked_about(lab: Lab) -> None:
    await lab.start(build_of(VALIDATING.handled_by(few)))
    other = await lab.namespace_also("elsewhere")
    made = Widget.new("one", other, spec=WidgetSpec(parts=9))
    assert (await lab.create(made)).spec.parts == 9
    with pytest.raises(ApiError, match="at most three"):
        await lab.create(widget(parts=9))
