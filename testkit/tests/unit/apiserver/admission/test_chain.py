"""The chain as a whole: which steps it skips, the order of its calls, and that two writes cannot spend the same quota."""

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from record.admission.hooks import patch
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall, Handler, QuotaUpdate
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://hooks.example.com/hook"
MAPS = Resource(group="", plural="configmaps", kind="ConfigMap", versions=(Version("v1", Node({})),))
WIDGETS = Resource(
    group="example.com",
    plural="widgets",
    kind="Widget",
    versions=(Version("v2", Node({})), Version("v1", Node({}), storage=False)),
)


def _configuration(kind: Literal["Mutating", "Validating"], *hooks: Data, name: str = "probe") -> Data:
    whole = []
    for number, hook in enumerate(hooks):
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE", "UPDATE"]}
        config = {"url": URL}
        defaults = {"name": f"h{number}.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None"}
        whole.append({**defaults, "clientConfig": config, "rules": [rule], **hook})
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
    return {**head, "metadata": {"name": name}, "webhooks": whole}


def _namespace(name: str = "n") -> Data:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}}


def _quota(used: str = "0", hard: str = "1") -> Data:
    amounts = {"hard": {"count/configmaps": hard}, "used": {"count/configmaps": used}}
    metadata = {"name": "q", "namespace": "n"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {}, "status": amounts}


def _map(name: str = "a", **more: Any) -> AdmissionCall:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {}}
    return AdmissionCall("CREATE", MAPS, "v1", namespace="n", name=name, object={**body, **more})


def _admission(*objects: Data, handlers: dict[str, Handler] | None = None, **more: Any) -> Admission:
    return Admission(
        Stored([_namespace(), *objects]), draws=Draws(random.Random(1)), handlers=handlers, clock=lambda: NOW, **more
    )


def _answering(response: Data, seen: list[Data] | None = None) -> Handler:
    async def handle(review: Data) -> Data:
        if seen is not None:
            seen.append(review["request"])
        answer = {"uid": review["request"]["uid"], **response}
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": answer}

    return handle


def test_an_update_needs_no_admission_if_nothing_is_configured() -> None:
    admission = _admission()
    assert not admission.needed(("", "configmaps"), "UPDATE")
    assert not admission.needed(("", "services"), "UPDATE")
    assert admission.needed(("", "pods"), "UPDATE"), "tolerations and priority are filled in again"
    assert not admission.needed(("", "configmaps"), "DELETE")
    assert admission.needed(("", "configmaps"), "CREATE")
    assert admission.needed(("", "namespaces"), "DELETE")


def test_an_update_needs_admission_where_a_webhook_or_a_quota_might_care() -> None:
    assert _admission(_configuration("Validating", {})).needed(("", "configmaps"), "UPDATE")
    assert not _admission(_configuration("Validating", {})).needed(("", "configmaps"), "DELETE")
    assert _admission(_quota()).needed(("", "services"), "UPDATE")
    assert not _admission(_quota()).needed(("", "configmaps"), "UPDATE")


def test_asking_whether_admission_is_needed_costs_microseconds() -> None:
    admission = _admission()
    start = time.process_time()
    for _ in range(10_000):
        admission.needed(("example.com", "widgets"), "UPDATE")
    assert time.process_time() - start < 0.1


async def test_an_unchanged_object_is_returned_itself() -> None:
    call = _map()
    assert await _admission().mutate(call) is call.object


async def test_a_mutated_object_is_a_new_one() -> None:
    handlers = {URL: _answering(patch({"op": "add", "path": "/data/k", "value": "v"}))}
    admission = _admission(_configuration("Mutating", {}), handlers=handlers)
    call = _map()
    assert (await admission.mutate(call))["data"] == {"k": "v"}
    assert call.object is not None
    assert call.object["data"] == {}


async def test_a_patched_object_is_defaulted_before_the_next_webhook() -> None:
    seen: list[Data] = []
    handlers = {URL: _answering(patch({"op": "add", "path": "/data/k", "value": "v"}), seen)}
    admission = _admission(
        _configuration("Mutating", {}, {}),
        handlers=handlers,
        settle=lambda call, found: {**found, "settled": call.name},
    )
    await admission.mutate(_map())
    assert [each["object"].get("settled") for each in seen] == [None, "a"]


async def test_two_writes_cannot_spend_the_same_remainder() -> None:
    objects = Stored([_namespace(), _quota()])

    def store(update: QuotaUpdate) -> None:
        quota = objects.get(("", "resourcequotas"), update.namespace, update.name)
        assert quota is not None
        objects.put({**quota, "status": update.status})

    admission = Admission(objects, draws=Draws(random.Random(1)), store_quota=store, clock=lambda: NOW)
    stored: list[Callable[[], None]] = []

    async def write(name: str) -> None:
        commit = await admission.validate(_map(name))
        assert commit is not None
        commit()
        stored.append(commit)

    results = await asyncio.gather(write("a"), write("b"), return_exceptions=True)
    refused = [result for result in results if isinstance(result, StatusError)]
    assert len(stored) == len(refused) == 1
    words = "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    assert refused[0].message == f'configmaps "b" is forbidden: {words}'


async def test_a_write_that_is_not_stored_charges_nothing() -> None:
    charged: list[QuotaUpdate] = []
    admission = _admission(_quota(), store_quota=charged.append)
    assert await admission.validate(_map()) is not None
    assert charged == []


async def test_a_webhook_is_shown_the_version_that_its_rules_name() -> None:
    seen: list[Data] = []
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}
    added = patch({"op": "add", "path": "/spec", "value": {}})
    admission = _admission(_configuration("Mutating", {"rules": [rule]}), handlers={URL: _answering(added, seen)})
    body = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}}
    call = AdmissionCall("CREATE", WIDGETS, "v2", namespace="n", name="w", object=body)
    assert await admission.mutate(call) == {**body, "spec": {}}
    request = seen[0]
    assert request["object"]["apiVersion"] == "example.com/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v2")


async def test_an_exact_webhook_does_not_see_other_versions() -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}
    hook = {"rules": [rule], "matchPolicy": "Exact"}
    admission = _admission(_configuration("Mutating", hook), handlers={URL: _answering({"allowed": False})})
    call = AdmissionCall("CREATE", WIDGETS, "v2", namespace="n", name="w", object={"metadata": {"name": "w"}})
    assert await admission.mutate(call) is call.object


async def test_a_service_is_answered_by_the_handler_of_its_name() -> None:
    config = {"service": {"name": "svc", "namespace": "hooks", "path": "/check", "port": 8443}}
    configuration = _configuration("Validating", {"clientConfig": config})
    for key in ("hooks/svc", "https://svc.hooks.svc:8443/check"):
        admission = _admission(
            configuration, handlers={key: _answering({"allowed": False, "status": {"message": "no"}})}
        )
        with pytest.raises(StatusError, match="denied the request: no"):
            await admission.validate(_map())


async def test_validating_webhooks_are_asked_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def handle(review: Data) -> Data:
        await both.wait()
        return await _answering({"allowed": True})(review)

    admission = _admission(_configuration("Validating", {}, {}), handlers={URL: handle})
    async with asyncio.timeout(5):
        await admission.validate(_map())


async def test_a_changed_configuration_counts_with_the_next_write() -> None:
    objects = Stored([_namespace()])
    handlers = {URL: _answering({"allowed": False})}
    admission = Admission(objects, draws=Draws(random.Random(1)), handlers=handlers, clock=lambda: NOW)
    assert await admission.validate(_map()) is None
    objects.put(_configuration("Validating", {}))
    with pytest.raises(StatusError, match="without explanation"):
        await admission.validate(_map())
    objects.remove(("admissionregistration.k8s.io", "validatingwebhookconfigurations"), "", "probe")
    assert await admission.validate(_map()) is None


async def test_a_namespace_that_ends_is_noticed_at_once() -> None:
    objects = Stored([_namespace()])
    admission = Admission(objects, draws=Draws(random.Random(1)), clock=lambda: NOW)
    await admission.mutate(_map())
    objects.put({**_namespace(), "status": {"phase": "Terminating"}})
    with pytest.raises(StatusError, match="because it is being terminated"):
        await admission.mutate(_map())


async def test_a_claim_is_protected_from_deletion_while_in_use() -> None:
    claims = Resource(group="", plural="persistentvolumeclaims", kind="PersistentVolumeClaim", versions=MAPS.versions)
    call = AdmissionCall("CREATE", claims, "v1", namespace="n", name="c", object={"metadata": {"name": "c"}})
    made = await _admission().mutate(call)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_v1beta1_reviews_are_deliberately_absent() -> None:
    admission = _admission(_configuration("Validating", {"admissionReviewVersions": ["v1beta1"]}))
    with pytest.raises(StatusError) as caught:
        await admission.validate(_map())
    assert caught.value.code == 501
