"""The limits of jobs: namespaces, labels and annotations that the operator obeys, approvals."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pull_kit import BACKUP, OPERATOR, World, ensure, manifest
from pydantic import ValidationError

from konverge import words as library
from konverge.crds.apps_v1alpha1 import ADOPT
from konverge.crds.ops_v1alpha1 import CANCEL
from konverge.errors import NotFound
from konverge.reconcilers.apps import words as apps
from konverge.reconcilers.apps.operations import words as operations
from konverge.reconcilers.clusters import words as clusters
from konverge.reconcilers.clusters.job_limits import Gates
from konverge.reconcilers.clusters.jobs import JobRefusal, Task, read_job
from konverge.reconcilers.clusters.journal import Journal, JournalEntry
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.reconcilers.clusters.secrets import JournalStore, SecretStore
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.shared.helm_release.words import ReleaseAnnotation

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GATES = Gates(cluster_id="east", denied=("konverge-system", *Settings().denied_namespaces))


def read(kind: str, payload: dict[str, Any], gates: Gates = GATES) -> Task | JobRefusal:
    times = {"createdAt": "2030-01-01T00:00:00Z", "expiresAt": "2040-01-01T00:00:00Z"}
    return read_job({"id": "a", "kind": kind, "payload": payload, "idempotencyKey": "a", **times}, gates, NOW)


def refused(kind: str, payload: dict[str, Any], gates: Gates = GATES) -> str:
    found = read(kind, payload, gates)
    return found.reason if isinstance(found, JobRefusal) else ""


def in_namespace(namespace: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a job of each kind and intent that writes in a namespace."""
    operation = {
        "apiVersion": "ops.vworkspace.io/v1alpha1",
        "kind": "Operation",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": BACKUP,
    }
    yield "apply", manifest(namespace=namespace)
    yield "delete", manifest(namespace=namespace)
    yield "apply", operation
    yield "delete", operation
    yield "intent", {**ensure(), "namespace": namespace}
    yield "intent", {"intent": "request-operation", "namespace": namespace, "spec": BACKUP}
    yield "intent", {"intent": "delete-application-instance", "namespace": namespace, "name": "shop"}


DENIED = [
    "konverge-system",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "kube-flannel",
    "kube-x",
    "flux-system",
    "velero",
    "cert-manager",
]
SPELLINGS: list[Callable[[str], Any]] = [
    str.upper,
    str.capitalize,
    lambda name: f"{name}\n",
    lambda name: f" {name}",
    lambda name: f"{name}\u200b",
    lambda name: f"{name}\0",
    lambda name: name.replace("e", "\u0435"),
    lambda name: "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in name),
    lambda name: f"../{name}",
    lambda name: f"{name}/",
    lambda name: [name],
    lambda name: {name: name},
    lambda _name: None,
]


@pytest.mark.parametrize("namespace", DENIED)
def test_no_job_writes_in_a_denied_namespace(namespace: str) -> None:
    reasons = {refused(kind, payload) for kind, payload in in_namespace(namespace)}
    assert reasons == {"NamespaceRefused"}


@pytest.mark.parametrize("spelling", range(len(SPELLINGS)))
def test_other_spellings_of_a_denied_namespace_are_refused(spelling: int) -> None:
    for namespace in ("kube-system", "velero"):
        given = SPELLINGS[spelling](namespace)
        assert {refused(kind, payload) for kind, payload in in_namespace(given)} == {"Malformed"}


def test_the_namespace_of_the_release_is_checked_too() -> None:
    for namespace in ("kube-system", "velero", "konverge-system"):
        body = ensure(release={"name": "shop", "namespace": namespace})
        assert refused("intent", body) == "NamespaceRefused"
        assert refused("apply", {**manifest(), "spec": body["spec"]}) == "NamespaceRefused"
    listed = Gates(cluster_id="east", namespaces=("web",))
    assert refused("intent", ensure(release={"name": "shop", "namespace": "other"}), listed) == "NamespaceRefused"


def test_denied_namespaces_are_denied_although_they_are_listed() -> None:
    gates = Gates(cluster_id="east", namespaces=("web", "kube-system", "velero"), denied=("velero",))
    assert [name for name in ("web", "kube-system", "velero", "other") if gates.allows(name)] == ["web"]


@pytest.mark.parametrize("name", ["*", "Velero", "a b", "velero**", "-a", "", "velero-*-b"])
def test_denied_namespace_of_the_settings_is_a_name_or_a_prefix(name: str) -> None:
    with pytest.raises(ValidationError, match="denied_namespaces"):
        Settings(denied_namespaces=(name,))


def vocabulary() -> set[str]:
    """Return the labels and annotations that the family and the library read or write."""
    classes: tuple[type, ...] = (
        *(library.Label, library.Annotation, apps.Label, apps.Annotation, ReleaseAnnotation, clusters.Annotation),
        *(operations.OpLabel, operations.OpAnnotation),
    )
    texts = {
        value
        for owner in classes
        for base in owner.__mro__
        for name, value in vars(base).items()
        if name.isupper() and isinstance(value, str)
    }
    ours = {text for text in texts if "vworkspace.io" in text or "konverge.dev" in text}
    return {*ours, ADOPT, f"{operations.OpAnnotation.CAPABILITY}backup", f"{library.Label.SHARD}/ring"} - {
        operations.OpAnnotation.CAPABILITY
    }


def _with(field: str, value: Any) -> dict[str, Any]:
    """Return an ApplicationInstance with a field of its metadata."""
    body = manifest()
    body["metadata"][field] = value
    return body


WRITTEN_BY_US = {apps.Label.MANAGED_BY, apps.Label.CLUSTER_ID}
WORDS = sorted(vocabulary())


def test_vocabulary_holds_the_known_words_of_trust() -> None:
    assert {apps.Annotation.OVERRIDE_FORBIDDEN, ADOPT, operations.OpAnnotation.MAINTENANCE_WINDOW} <= set(WORDS)
    assert {library.Annotation.SHARD_OWNER, library.Label.OWNER_UID, operations.OpAnnotation.LAST_OPERATION} <= set(
        WORDS
    )


@pytest.mark.parametrize("key", [*WORDS, "apps.vworkspace.io/a-later-word", "deeper.konverge.dev/a", "vworkspace.io"])
def test_job_writes_no_word_of_the_operator(key: str) -> None:
    for field in ("labels", "annotations"):
        if field == "labels" and key in WRITTEN_BY_US:
            continue
        payloads = [("apply", _with(field, {key: "true"})), ("intent", {**ensure(), field: {key: "true"}})]
        request = {"intent": "request-operation", "namespace": "web", "spec": BACKUP, field: {key: "true"}}
        for kind, payload in (*payloads, ("intent", request)):
            assert refused(kind, payload) == "FieldRefused", field


@pytest.mark.parametrize("key", ["Apps.VWorkspace.io/adopt", " apps.vworkspace.io/adopt", "konverge.dev /owner"])
def test_other_spellings_of_a_word_of_the_operator_are_refused(key: str) -> None:
    assert refused("apply", manifest(annotations={key: "true"})) == "FieldRefused"


def test_labels_that_each_object_of_a_job_has_keep_their_values() -> None:
    found = read("apply", manifest(labels={apps.Label.MANAGED_BY: "helm", "app": "shop"}, annotations={"a.io/b": "c"}))
    assert isinstance(found, Task)
    assert found.body is not None
    assert found.body["metadata"]["labels"] == {
        "app": "shop",
        apps.Label.MANAGED_BY: "control-plane",
        apps.Label.CLUSTER_ID: "east",
    }
    assert found.body["metadata"]["annotations"] == {"a.io/b": "c"}


def test_job_may_cancel_its_operation_and_require_an_approval() -> None:
    request = {"intent": "request-operation", "namespace": "web", "spec": {**BACKUP, "approvals": {"required": True}}}
    assert refused("intent", {**request, "annotations": {CANCEL: "true"}}) == ""


@pytest.mark.parametrize(
    "approvals",
    [
        {"claim": "{}"},
        {"claim": ""},
        {"required": True, "claim": "{}"},
        {"required": False, "approvedBy": "admin"},
        {"approvedAt": "2030-01-01T00:00:00Z"},
        {"approved_by": "admin"},
        {"aLaterField": True},
    ],
)
def test_job_does_not_approve_an_operation(approvals: dict[str, Any]) -> None:
    spec = {**BACKUP, "approvals": approvals}
    body = {"apiVersion": "ops.vworkspace.io/v1alpha1", "kind": "Operation", "spec": spec}
    request = {"intent": "request-operation", "namespace": "web", "spec": spec}
    assert refused("intent", request) == "FieldRefused"
    assert refused("apply", {**body, "metadata": {"name": "a", "namespace": "web"}}) == "FieldRefused"


@pytest.mark.parametrize("field", ["ownerReferences", "finalizers", "managedFields", "uid", "generateName", "selfLink"])
def test_job_writes_no_other_metadata(field: str) -> None:
    assert refused("apply", _with(field, [])) == "Malformed"


async def test_refused_words_reach_the_control_plane_as_results_and_no_object() -> None:
    async with World() as world:
        await world.start()
        override = manifest(annotations={apps.Annotation.OVERRIDE_FORBIDDEN: "true"})
        first = await world.plane.result(world.plane.submit("apply", override))
        approved = {"intent": "request-operation", "namespace": "web", "spec": {**BACKUP, "approvals": {"claim": "{}"}}}
        second = await world.plane.result(world.plane.submit("intent", approved))
        assert (await world.plane.result(world.plane.submit("intent", ensure("good")))).outcome is Outcome.SUCCEEDED
        assert await world.operations() == []
    assert {(one.outcome, one.reason) for one in (first, second)} == {(Outcome.FAILED, "FieldRefused")}
    assert "annotation apps.vworkspace.io/override-forbidden" in first.message
    assert "spec.approvals.claim" in second.message


async def test_job_of_an_earlier_release_in_the_journal_is_refused_at_resumption() -> None:
    times = {"createdAt": "2030-01-01T00:00:00Z", "expiresAt": "2040-01-01T00:00:00Z"}
    raw: dict[str, Any] = {
        "kind": "apply",
        "payload": manifest(annotations={ADOPT: "true"}),
        "idempotencyKey": "a",
        **times,
    }
    async with World() as world:
        job = world.plane.submit("apply", raw["payload"], key="a")
        entry = JournalEntry(job_id=job, key="a", raw={"id": job, **raw})
        store = JournalStore(SecretStore(world.client, world.owner, OPERATOR, "vworkspace-agent-journal"))
        await store.load()
        await store.save(Journal(entries=(entry,)))
        await world.start()
        result = await world.plane.result(job)
        with pytest.raises(NotFound):
            await world.instance()
    assert (result.outcome, result.reason) == (Outcome.FAILED, "FieldRefused")
