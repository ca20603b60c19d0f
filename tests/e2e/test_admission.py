"""Webhooks that a real kube-apiserver calls on loopback, with certificates that we make ourselves."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
import yaml
from widgets import CONFIG_MAP, SECRET, By, Widget, WidgetSpec, widget

import konverge as kv
from konverge.errors import Forbidden, Invalid
from konverge.runtime.admission.configurations import VALIDATING as CONFIGURATION
from konverge_testing import ControlPlane, Lab
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.clients import ClientFor
from konverge_testing.lab.webhook_probe import wait_until_called
from konverge_testing.ports import ReservedPort

pytestmark = pytest.mark.control_plane

VALIDATING, MUTATING = kv.Webhook.validating(Widget), kv.Webhook.mutating(Widget)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


async def nothing(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Made", "as asked")
    return kv.Done()


def build_of(*webhooks: kv.Webhook[Any]) -> Any:
    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).reconciled_by(By(nothing)))
        for webhook in webhooks:
            manager.add(webhook)

    return build


def few(request: kv.AdmissionRequest[Widget]) -> kv.Allow | kv.Deny:
    if request.object.spec.parts > 3:
        return kv.Deny(
            "at most three parts", code=422, fields={"spec.parts": "is too many"}, audit={"parts": "too many"}
        )
    return kv.Allow(warnings=("parts\nare being counted",))


def marked(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
    request.object.spec.mode = "marked"
    return kv.Allow(labels={"seen": "yes", "unwanted": None})


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict[str, Any]
    warnings: list[str]


class Person:
    """Requests of a person, with any header, and with the headers of the response."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self._url = plane.url
        self._session = session

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, f"{self._url}{path}", json=body, headers=head) as answer:
            return Reply(answer.status, await answer.json(), answer.headers.getall("Warning", []))


@pytest.fixture
async def person(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Person]:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    user = config["users"][0]["user"]
    context = ssl.create_default_context(cafile=str(control_plane.ca_file))
    pair = tmp_path / "person.pem"
    pair.write_bytes(
        b"\n".join(base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data"))
    )
    context.load_cert_chain(pair)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield Person(control_plane, session)


def served_at(lab: Lab, port: ReservedPort, name: str, **more: Any) -> kv.ManagerSettings:
    address = f"127.0.0.1:{port.number}"
    webhooks = kv.WebhookSettings(
        address=address,
        url=f"https://{address}",
        configuration=f"{name}-{lab.namespace}",
        secret=f"{lab.namespace}/{name}",
        look_seconds=0.2,
        **more,
    )
    return kv.ManagerSettings(namespace=lab.namespace, strict=True, webhooks=webhooks)


async def asked(lab: Lab, settings: kv.ManagerSettings) -> None:
    """Wait until the API server calls the webhook, where `lab.start` could not."""
    webhooks = settings.webhooks
    await wait_until_called(
        lab.client, CONFIGURATION, webhooks.configuration, url=webhooks.url, namespace=lab.namespace, timeout=30
    )


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    port = ReservedPort("127.0.0.1")
    yield port
    port.release()


def collection(lab: Lab, name: str = "") -> str:
    return f"/apis/tests.konverge.dev/v1/namespaces/{lab.namespace}/widgets{f'/{name}' if name else ''}"


async def test_a_real_server_completes_and_refuses_by_our_word(lab: Lab, person: Person) -> None:
    await lab.start(build_of(MUTATING.handled_by(marked), VALIDATING.handled_by(few)))
    made = Widget.new("one", lab.namespace, spec=WidgetSpec(parts=1), labels={"unwanted": "x"})
    stored = await lab.client.create(made)
    assert (stored.spec.mode, stored.labels) == ("marked", {"seen": "yes"})
    with pytest.raises(Invalid, match="at most three parts") as refused:
        await lab.create(widget("two", parts=4))
    assert refused.value.causes == (("spec.parts", "is too many"),)
    await lab.until(Widget, "one", kv.is_true("Ready"))
    with pytest.raises(Invalid, match="at most three parts"):
        await lab.patch(Widget, "one", {"spec": {"parts": 4}})
    reply = await person.send("POST", collection(lab), widget("three", parts=1).to_dict())
    assert (reply.status, reply.warnings) == (201, ['299 - "parts are being counted"'])


async def test_a_real_request_is_decoded_whole(lab: Lab, person: Person) -> None:
    seen: list[kv.AdmissionRequest[Widget]] = []

    def note(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        if request.user.name == "jane":
            seen.append(request)
        return kv.Allow()

    webhooks = (
        MUTATING.handled_by(note),
        VALIDATING.named("all").on("CREATE", "UPDATE", "DELETE").handled_by(note),
        VALIDATING.named("status").on("UPDATE", subresource="status").handled_by(note),
    )

    def build(manager: kv.Manager) -> None:  # without a controller, whose status writes would interfere
        for webhook in webhooks:
            manager.add(webhook)

    await lab.start(build)
    jane = {
        "Impersonate_User": "jane",
        "Impersonate_Group": "system:masters",
        "Impersonate_Uid": "7",
        "Impersonate_Extra_Scopes": "a",
    }
    body = widget(parts=1).to_dict()
    assert (await person.send("POST", f"{collection(lab)}?fieldManager=me&dryRun=All", body, **jane)).status == 201
    created, checked = seen
    for request in (created, checked):
        assert (request.operation, request.name, request.namespace, request.dry_run) == (
            "CREATE",
            "one",
            lab.namespace,
            True,
        )
        assert request.kind == request.requested_kind == ("tests.konverge.dev", "v1", "Widget")
        assert request.resource == request.requested_resource == ("tests.konverge.dev", "v1", "widgets")
        assert request.options == {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "me",
            "dryRun": ["All"],
        }
        assert (request.user.uid, request.user.extra) == ("7", {"scopes": ("a",)})
        assert set(request.user.groups) == {"system:masters", "system:authenticated"}
        assert (request.object.spec.parts, request.old) == (1, None)
    seen.clear()

    assert (await person.send("POST", collection(lab), body, **jane)).status == 201
    changed = {**body, "spec": {"parts": 2}}
    stored = await lab.get(Widget, "one")
    changed["metadata"] = {"name": "one", "resourceVersion": stored.metadata.resource_version}
    seen.clear()
    assert (await person.send("PUT", collection(lab, "one"), changed, **jane)).status == 200
    for request in seen:
        assert request.old is not None
        assert (request.operation, request.object.spec.parts, request.old.spec.parts) == ("UPDATE", 2, 1)
        assert request.options["kind"] == "UpdateOptions"
        assert request.old.uid
    assert [request.webhook.split("-")[0] for request in seen] == ["/mutate", "/all"]

    seen.clear()
    patch = {"Content_Type": "application/merge-patch+json", **jane}
    status = {"status": {"note": "by hand"}}
    assert (await person.send("PATCH", f"{collection(lab, 'one')}/status", status, **patch)).status == 200
    (request,) = seen
    assert (request.subresource, request.requested_subresource, request.object.status.note) == (
        "status",
        "status",
        "by hand",
    )
    assert request.options["kind"] == "UpdateOptions"

    seen.clear()
    assert (await person.send("DELETE", collection(lab, "one"), **jane)).status == 200
    (request,) = seen
    assert (request.operation, request.new, request.options["kind"]) == ("DELETE", None, "DeleteOptions")
    assert request.old is not None
    assert (request.old.spec.parts, request.old.status.note) == (2, "by hand")


async def fails(_: Any) -> kv.Allow:
    raise ValueError("a bug")


async def sleeps(_: Any) -> kv.Allow:
    await asyncio.sleep(3600)
    return kv.Allow()


@pytest.mark.parametrize(
    ("handler", "words"),
    [(fails, "raised ValueError"), (sleeps, "did not answer within 2.7 s")],
    ids=["raises", "sleeps"],
)
async def test_a_failure_refuses_or_passes_with_a_warning(lab: Lab, person: Person, handler: Any, words: str) -> None:
    ignoring = VALIDATING.named("other").selecting("kind=other").ignoring_failures().within(3).handled_by(handler)
    strict = VALIDATING.selecting("kind=strict").within(3).handled_by(handler)
    await lab.start(build_of(strict, ignoring))

    def body(kind: str) -> dict[str, Any]:
        return Widget.new(kind, lab.namespace, labels={"kind": kind}).to_dict()

    reply = await person.send("POST", collection(lab), body("strict"))
    assert reply.status == 500
    assert 'failed calling webhook "validate.widgets.tests.konverge.dev"' in reply.body["message"]
    assert f"webhook validate.widgets.tests.konverge.dev {words}; see the log" in reply.body["message"]
    reply = await person.send("POST", collection(lab), body("other"))
    assert reply.status == 201
    assert reply.warnings == [f'299 - "webhook other.widgets.tests.konverge.dev {words} and was ignored"']


async def test_a_dry_run_reaches_handlers_and_leaves_nothing(lab: Lab) -> None:
    seen: list[bool] = []

    async def handler(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        seen.append(request.dry_run)
        if not request.dry_run:
            await request.client.create(CONFIG_MAP.new("effect", request.namespace))
        return kv.Allow()

    await lab.start(build_of(VALIDATING.with_effects().handled_by(handler)))
    made = Widget.new("one", lab.namespace)
    await lab.client.create(made, dry_run=True)
    assert await lab.find(CONFIG_MAP, "effect") is None
    await lab.client.create(made)
    assert await lab.find(CONFIG_MAP, "effect") is not None
    assert seen == [True, False]


async def test_certificates_and_their_authority_change_while_requests_go_on(lab: Lab, port: ReservedPort) -> None:
    """In twelve seconds the serving certificate is replaced several times and its authority at least once."""
    settings = served_at(lab, port, "rotating", certificate_days=6 / 86400, authority_days=12 / 86400)
    manager = await lab.start(build_of(VALIDATING.handled_by(few)), settings=settings)
    certificates, bundles, asked = set[str](), set[str](), 0
    loop = asyncio.get_running_loop()
    end = loop.time() + 12
    while loop.time() < end:
        with pytest.raises(Invalid, match="at most three"):
            await lab.client.create(Widget.new("one", lab.namespace, spec=WidgetSpec(parts=4)), dry_run=True)
        asked += 1
        certificates.add((await lab.get(SECRET, "rotating")).data["data"]["tls.crt"])
        stored = await lab.client.get(CONFIGURATION, settings.webhooks.configuration)
        bundles.add(stored.data["webhooks"][0]["clientConfig"]["caBundle"])
    assert asked > 100
    assert len(certificates) > 2
    assert len(bundles) > 1
    assert manager.report().ready


async def test_mounted_certificates_are_followed_while_requests_go_on(
    lab: Lab, port: ReservedPort, tmp_path: Path
) -> None:
    authority = Authority.create("an authority")

    def write() -> None:
        pair = authority.server("webhooks", ["127.0.0.1"])
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    write()
    settings = served_at(lab, port, "mounted", certificates=str(tmp_path))
    build = build_of(VALIDATING.handled_by(few))
    manager = await lab.start(build, settings=settings)
    name = settings.webhooks.configuration
    found = await lab.client.get(CONFIGURATION, name)
    (wanted,) = manager.webhook_configurations(bundle=authority.certificate)
    found.data["webhooks"][0]["clientConfig"] = wanted["webhooks"][0]["clientConfig"]
    await lab.client.replace(found)
    await asked(lab, settings)
    reads = manager.metrics.registry.get_sample_value
    for number in range(60):
        if number % 20 == 10:
            write()
        with pytest.raises(Invalid, match="at most three"):
            await lab.client.create(Widget.new("one", lab.namespace, spec=WidgetSpec(parts=4)), dry_run=True)
        await asyncio.sleep(0.02)
    assert (reads("certwatcher_read_certificate_total") or 0) > 3
    assert reads("certwatcher_read_certificate_errors_total") == 0
    assert (await lab.find(SECRET, "mounted")) is None


async def test_the_rights_that_rbac_prints_suffice(
    lab: Lab, port: ReservedPort, client_for: ClientFor, logs: list[Any]
) -> None:
    settings = served_at(lab, port, "rights")
    build = build_of(VALIDATING.reads(CONFIG_MAP).handled_by(few))
    described = kv.Manager("operator", settings=settings)
    build(described)
    client = await client_for("operator", cluster_rules=[rule.to_dict() for rule in described.rules()])
    manager = await lab.start(build, name="operator", config=client.config, settings=settings, wait=False)
    async with asyncio.timeout(90):
        while not manager.report().of("widget").ready:
            await asyncio.sleep(0.05)
        while "there is no right to create it" not in str(manager.report()):
            await asyncio.sleep(0.05)
    await lab.create(SECRET.new("rights"))
    await manager.wait_ready(timeout=90)
    await asked(lab, settings)
    with pytest.raises(Invalid, match="at most three"):
        await lab.create(widget(parts=4))


async def test_a_configuration_without_an_owner_is_taken_over(lab: Lab) -> None:
    manager = await lab.start(build_of(VALIDATING.handled_by(few)))
    name = f"lab-{lab.namespace}"
    found = await lab.client.get(CONFIGURATION, name)
    entry = found.data["webhooks"][0]
    theirs = {
        **entry,
        "name": "theirs.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "failurePolicy": "Ignore",
    }
    found.data["webhooks"] = [theirs, {**entry, "clientConfig": {"url": entry["clientConfig"]["url"]}}]
    await lab.client.replace(found)
    async with asyncio.timeout(90):
        while True:
            theirs, ours = (await lab.client.get(CONFIGURATION, name)).data["webhooks"]
            if ours["clientConfig"].get("caBundle"):
                break
            await asyncio.sleep(0.1)
    assert theirs["clientConfig"] == {"url": "https://127.0.0.1:1/x"}
    assert manager.report().ready


async def test_a_webhook_is_counted_under_controller_runtimes_names(lab: Lab) -> None:
    manager = await lab.start(build_of(VALIDATING.handled_by(few)))
    with pytest.raises((Invalid, Forbidden)):
        await lab.create(widget(parts=4))
    path = VALIDATING.path
    value = manager.metrics.registry.get_sample_value
    assert (value("controller_runtime_webhook_requests_total", {"webhook": path, "code": "200"}) or 0) >= 1
    assert value("controller_runtime_webhook_requests_total", {"webhook": path, "code": "500"}) == 0
    assert (value("controller_runtime_webhook_latency_seconds_count", {"webhook": path}) or 0) >= 1
    assert value("certwatcher_read_certificate_errors_total") == 0
