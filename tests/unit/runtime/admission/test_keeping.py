"""One Secret for several replicas, and CA bundles that are written only into our own objects: against the API server in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, Widget

import konverge as kv
from konverge.client import Client
from konverge.errors import ConfigError, Conflict, Invalid, NotOurs
from konverge.rbac import cluster_role, narrowed_roles
from konverge.runtime.admission.bundles import injection
from konverge.runtime.admission.cert_secret import CertificateKeeper
from konverge.runtime.admission.configurations import MUTATING, VALIDATING, configurations, rules_of_webhooks
from konverge.runtime.admission.settings import place_of
from konverge.runtime.tls.certificates import is_of_authority
from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import User

SETTINGS = kv.WebhookSettings(service="web/hooks", certificate_days=30)
PLACE = place_of("shop", SETTINGS)


def yes(_: Any) -> kv.Allow:
    return kv.Allow()


WEBHOOKS: list[kv.Webhook[Any]] = [
    kv.Webhook.validating(Widget).handled_by(yes),
    kv.Webhook.mutating(Widget).handled_by(yes),
    kv.Webhook.mutating(CONFIG_MAP).handled_by(yes),
]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(namespaces=("default", "web")) as server:
        yield server


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.config(), name="admin") as client:
        yield client


def keeper(client: Client, manager: str = "shop") -> CertificateKeeper:
    return CertificateKeeper(client, PLACE, SETTINGS, manager)


async def register(admin: Client) -> None:
    for configuration in configurations(WEBHOOKS, PLACE):
        await admin.create(kv.Object(configuration))


async def bundles(admin: Client) -> list[bytes]:
    found = [await admin.get(what, "shop") for what in (MUTATING, VALIDATING)]
    entries = [entry for one in found for entry in one.data["webhooks"]]
    return [base64.b64decode(entry["clientConfig"].get("caBundle") or "") for entry in entries]


async def test_the_first_makes_the_secret_and_the_others_take_it(admin: Client) -> None:
    first, second = await asyncio.gather(keeper(admin).material(), keeper(admin).material())
    assert first == second
    stored = await admin.get(SECRET, "shop-webhooks", "web")
    assert stored.metadata.labels == {"konverge.dev/webhook-certificates": "shop"}
    assert sorted(stored.data["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    version = stored.metadata.resource_version
    assert await keeper(admin).material() == first
    assert (await admin.get(SECRET, "shop-webhooks", "web")).metadata.resource_version == version


async def test_replicas_that_renew_at_once_end_with_the_same(admin: Client) -> None:
    first = await keeper(admin).material()
    await asyncio.sleep(21 * 86400)
    renewed = await asyncio.gather(*(keeper(admin).material() for _ in range(3)))
    assert renewed[0].certificate != first.certificate
    assert renewed[0].trusted == first.trusted
    assert len({one.certificate for one in renewed}) == 1


@pytest.mark.parametrize("data", [None, {"other": "eA=="}])
async def test_an_empty_or_labelled_secret_is_filled_beside_what_else_it_holds(admin: Client, data: Any) -> None:
    labels = {"konverge.dev/webhook-certificates": "shop"} if data else None
    await admin.create(SECRET.new("shop-webhooks", "web", labels=labels, **({"data": data} if data else {})))
    await keeper(admin).material()
    stored = (await admin.get(SECRET, "shop-webhooks", "web")).data["data"]
    assert set(stored) == {"ca.crt", "ca.key", "tls.crt", "tls.key", *(data or {})}


@pytest.mark.parametrize(
    ("labels", "data"),
    [(None, {"tls.crt": "eA=="}), ({"konverge.dev/webhook-certificates": "other"}, None)],
)
async def test_a_foreign_secret_is_never_written(admin: Client, labels: Any, data: Any) -> None:
    before = await admin.create(SECRET.new("shop-webhooks", "web", labels=labels, **({"data": data} if data else {})))
    with pytest.raises(NotOurs, match=r"name another one in webhooks\.secret"):
        await keeper(admin).material()
    assert await admin.get(SECRET, "shop-webhooks", "web") == before


async def test_the_rights_that_are_declared_suffice_for_what_was_applied(server: ApiServer, admin: Client) -> None:
    rules = rules_of_webhooks(WEBHOOKS, PLACE, self_made=True)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "shop"}
    for role in (cluster_role("shop", rules), *narrowed_roles("shop", rules)):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": "shop"}
        bound = {**role, "kind": f"{role['kind']}Binding", "roleRef": reference, "subjects": [subject]}
        del bound["rules"]
        await admin.create(kv.Object(role))
        await admin.create(kv.Object(bound))
    await register(admin)
    async with Client(server.config(user=User("shop")), name="shop") as client:
        with pytest.raises(ConfigError, match="apply what `konverge webhooks` prints"):
            await keeper(client).material()
        await admin.create(SECRET.new("shop-webhooks", "web"))
        material = await keeper(client).material()
        assert await keeper(client).inject(WEBHOOKS, material.trusted) == []
    assert await bundles(admin) == [material.trusted] * 3


async def test_bundles_are_put_in_once_and_follow_the_authority(admin: Client) -> None:
    await register(admin)
    keeping = keeper(admin)
    await keeping.inject(WEBHOOKS, (await keeping.material()).trusted)
    versions = [(await admin.get(what, "shop")).metadata.resource_version for what in (MUTATING, VALIDATING)]
    await keeping.inject(WEBHOOKS, (await keeping.material()).trusted)
    assert [(await admin.get(what, "shop")).metadata.resource_version for what in (MUTATING, VALIDATING)] == versions
    await admin.delete(SECRET, "shop-webhooks", "web")
    again = await keeping.material()
    assert await keeping.inject(WEBHOOKS, again.trusted) == []
    assert await bundles(admin) == [again.trusted] * 3


async def test_configurations_that_were_not_applied_are_named(admin: Client) -> None:
    assert await keeper(admin).inject(WEBHOOKS, b"") == [
        "there is no MutatingWebhookConfiguration shop: apply what `konverge webhooks` prints",
        "there is no ValidatingWebhookConfiguration shop: apply what `konverge webhooks` prints",
    ]


async def test_a_change_in_between_makes_the_patch_fail_and_be_tried_again(admin: Client, server: ApiServer) -> None:
    await register(admin)
    keeping = keeper(admin)
    trusted = (await keeping.material()).trusted
    found = await admin.get(VALIDATING, "shop")
    patch, _ = injection(found.to_dict(), {WEBHOOKS[0].name: PLACE.client_config(WEBHOOKS[0].path)}, trusted, "")
    found.data["webhooks"][0]["clientConfig"]["service"]["name"] = "elsewhere"
    await admin.replace(found)
    with pytest.raises((Conflict, Invalid)):
        await admin.patch(VALIDATING, "shop", patch=patch, style="json")
    assert b"" in await bundles(admin)


# --- pure functions -----------------------------------------------------------------------------------------------------------

OURS = {"ours.example.com": {"service": {"namespace": "web", "name": "hooks", "path": "/x", "port": 443}}}
BUNDLE = base64.b64encode(b"new").decode()


def configuration(*entries: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {"name": "shop", **({"annotations": annotations} if annotations else {})}
    return {"kind": "ValidatingWebhookConfiguration", "metadata": metadata, "webhooks": list(entries)}


def stored(name: str = "ours.example.com", bundle: bytes = b"", **service: Any) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"namespace": "web", "name": "hooks", "path": "/x", **service}}
    if bundle:
        client["caBundle"] = base64.b64encode(bundle).decode()
    return {"name": name, "clientConfig": client}


def test_a_bundle_goes_into_our_entry_guarded_by_tests() -> None:
    other = stored("other.example.com")
    patch, odd = injection(configuration(other, stored()), OURS, b"new", "authority")
    assert odd == []
    assert patch == [
        {"op": "test", "path": "/webhooks/1/name", "value": "ours.example.com"},
        {"op": "test", "path": "/webhooks/1/clientConfig", "value": stored()["clientConfig"]},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": BUNDLE},
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (configuration(stored(bundle=b"new")), []),
        (configuration(stored(name="other.example.com")), ["has no webhook ours.example.com"]),
        (configuration(), ["has no webhook ours.example.com"]),
        (configuration(stored(name="ours.example.com", namespace="other")), ["leads to other/hooks:443/x and not to web/hooks:443/x"]),
        (configuration(stored(port=8443)), ["leads to web/hooks:8443/x"]),
        (configuration(stored(bundle=b"somebody else's")), ["trusts certificates that are not ours"]),
        (configuration(stored(), **{"cert-manager.io/inject-ca-from": "web/cert"}), ["is cert-manager's"]),
    ],
)  # fmt: skip
def test_configurations_that_are_right_or_foreign_are_left_alone(found: dict[str, Any], words: list[str]) -> None:
    patch, odd = injection(found, OURS, b"new", "authority")
    assert patch == []
    assert len(odd) == len(words)
    assert all(word in said for word, said in zip(words, odd, strict=True))


async def test_a_bundle_of_our_own_authority_is_replaced(admin: Client) -> None:
    first = (await keeper(admin).material()).trusted
    authority = keeper(admin)._authority
    assert is_of_authority(first, authority)
    patch, odd = injection(configuration(stored(bundle=first)), OURS, b"new", authority)
    assert (len(patch), odd) == (3, [])
