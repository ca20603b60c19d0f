"""The authority of self-made certificates in the definition of a converted kind."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tanks import GROUP, TANKS, Tank

import konverge as kv
from konverge.client import Client
from konverge.crds import crd
from konverge.daemon.crds import apply_all
from konverge.metrics import Metrics
from konverge.rbac import cluster_role, narrowed_roles
from konverge.runtime.admission.bundles import definition_injection
from konverge.runtime.admission.cert_secret import CertificateKeeper
from konverge.runtime.admission.configurations import DEFINITION, SECRET, rules_of_webhooks
from konverge.runtime.admission.handler import WebhookServices
from konverge.runtime.admission.responding import AdmissionResponse
from konverge.runtime.admission.router import WebhookRouter
from konverge.runtime.admission.settings import place_of
from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import User

SETTINGS = kv.WebhookSettings(service="web/hooks")
PLACE = place_of("shop", SETTINGS)
CLIENT = PLACE.client_config(TANKS.path)
NAME = f"tanks.{GROUP}"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(namespaces=("default", "web")) as server:
        yield server


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.config(), name="admin") as client:
        yield client


async def test_the_declared_rights_suffice_to_write_the_bundle(server: ApiServer, admin: Client) -> None:
    rules = rules_of_webhooks([], PLACE, self_made=True, conversions=[TANKS])
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "shop"}
    for role in (cluster_role("shop", rules), *narrowed_roles("shop", rules)):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": "shop"}
        bound = {**role, "kind": f"{role['kind']}Binding", "roleRef": reference, "subjects": [subject]}
        del bound["rules"]
        await admin.create(kv.Object(role))
        await admin.create(kv.Object(bound))
    await admin.create(SECRET.new("shop-webhooks", "web"))
    async with Client(server.config(user=User("shop")), name="shop") as client:
        keeper = CertificateKeeper(client, PLACE, SETTINGS, "shop")
        trusted = (await keeper.material()).trusted
        missing = f"there is no CustomResourceDefinition {NAME}: apply what `konverge crds` prints"
        assert await keeper.inject([], trusted, [TANKS]) == [missing]
        definition = crd(*TANKS.models, webhook=CLIENT)
        await admin.apply(DEFINITION, definition, manager="konverge-crds", force=True)
        assert await keeper.inject([], trusted, [TANKS]) == []
        await admin.apply(DEFINITION, definition, manager="konverge-crds", force=True)
    stored = await admin.get(DEFINITION, NAME)
    bundle = stored.get("spec", "conversion", "webhook", "clientConfig", "caBundle")
    assert base64.b64decode(bundle) == trusted, "a second apply of the definition keeps the bundle"


async def test_a_conversion_leaves_its_definition_with_the_old_versions(admin: Client) -> None:
    keeper = CertificateKeeper(admin, PLACE, SETTINGS, "shop")
    trusted = (await keeper.material()).trusted
    async with Client(admin.config, name="konverge-crds") as crds:
        assert await apply_all(crds, [crd(*TANKS.models, webhook=CLIENT)]) == [(NAME, "created")]
        assert await keeper.inject([], trusted, [TANKS]) == []
        assert await apply_all(crds, [crd(Tank)], dry_run=True) == [(NAME, "configured")]
        assert await apply_all(crds, [crd(*TANKS.models, webhook=CLIENT)]) == [(NAME, "unchanged")]
        assert await apply_all(crds, [crd(Tank)]) == [(NAME, "configured")]
        assert await apply_all(crds, [crd(Tank)]) == [(NAME, "unchanged")]
    spec = (await admin.get(DEFINITION, NAME)).data["spec"]
    assert ([version["name"] for version in spec["versions"]], spec["conversion"]) == (["v1"], {"strategy": "None"})


def definition(conversion: dict[str, Any] | None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": NAME, **metadata}, "spec": {"conversion": conversion} if conversion else {}}


def webhook(**client: Any) -> dict[str, Any]:
    return {"strategy": "Webhook", "webhook": {"clientConfig": {**CLIENT, **client}}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (definition(None), "has no conversion webhook: apply what"),
        (definition({"strategy": "None"}), "has no conversion webhook: apply what"),
        (definition(webhook(service={"namespace": "a", "name": "b"})), "leads to a/b:443/"),
        (definition(webhook(caBundle=base64.b64encode(b"other").decode())), "trusts certificates that are not ours"),
        (
            definition(webhook(), annotations={"cert-manager.io/inject-ca-from": "web/hooks"}),
            "is cert-manager's",
        ),
    ],
)
def test_a_foreign_place_is_named_and_not_changed(found: dict[str, Any], words: str) -> None:
    patch, (problem,) = definition_injection(found, CLIENT, b"new", "authority")
    assert patch == []
    assert words in problem


async def ask(body: Any) -> AdmissionResponse:
    async def read() -> bytes:
        return body if isinstance(body, bytes) else json.dumps(body).encode()

    router = WebhookRouter([], WebhookServices(), Metrics(), [TANKS])
    return await router.answer(TANKS.path, read)


HEAD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
REQUEST = {"uid": "7", "desiredAPIVersion": f"{GROUP}/v1"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the request has no body"),
        (b"[", "is no ConversionReview"),
        (b"\xff", "is no ConversionReview"),
        ({}, "the body is nothing of no version"),
        ({**HEAD, "apiVersion": "apiextensions.k8s.io/v1beta1"}, "of apiextensions.k8s.io/v1beta1; a ConversionReview"),
        (HEAD, "the review has no request"),
        ({**HEAD, "request": {**REQUEST, "objects": [1]}}, "is no ConversionReview"),
        (b"[" * 100_000, "is no ConversionReview"),
    ],
)
async def test_a_body_without_a_review_is_refused_in_words(body: Any, words: str) -> None:
    answer = await ask(body)
    assert answer.status == 400
    assert words in answer.body.decode() or "nested deeper" in answer.body.decode()


@pytest.mark.parametrize("metadata", [None, [], {"deletionTimestamp": "2030-01-01T00:00:00Z"}, {"name": 3}])
async def test_an_odd_object_gets_a_review_in_response(metadata: Any) -> None:
    odd = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Tank", "metadata": metadata, "spec": 3}
    answer = await ask({**HEAD, "request": {**REQUEST, "objects": [odd]}})
    response = json.loads(answer.body)["response"]
    assert (answer.status, response["uid"]) == (200, "7")
    deleted = bool(metadata and isinstance(metadata, dict) and "deletionTimestamp" in metadata)
    assert response["result"]["status"] == ("Success" if deleted else "Failure")
