import json
from typing import Any

import pytest

from konverge.client import ListQuery, ResourceInfo, WatchQuery, requests
from konverge.errors import UsageError

PODS = ResourceInfo(api_version="v1", kind="Pod", plural="pods", namespaced=True)
NODES = ResourceInfo(api_version="v1", kind="Node", plural="nodes", namespaced=False)
DEPLOYMENTS = ResourceInfo(api_version="apps/v1", kind="Deployment", plural="deployments", namespaced=True)


@pytest.mark.parametrize(
    ("info", "namespace", "name", "subresource", "path"),
    [
        (PODS, "web", "a", "", "/api/v1/namespaces/web/pods/a"),
        (PODS, "web", "a", "status", "/api/v1/namespaces/web/pods/a/status"),
        (NODES, "", "n1", "", "/api/v1/nodes/n1"),
        (DEPLOYMENTS, "web", "a", "", "/apis/apps/v1/namespaces/web/deployments/a"),
        (NODES, "", "system:a/b?c", "", "/api/v1/nodes/system%3Aa%2Fb%3Fc"),
    ],
)
def test_the_path_of_an_object(info: ResourceInfo, namespace: str, name: str, subresource: str, path: str) -> None:
    assert requests.object_path(info, namespace, name, subresource) == path


@pytest.mark.parametrize(
    ("info", "namespace", "path"),
    [
        (PODS, None, "/api/v1/pods"),
        (PODS, "web", "/api/v1/namespaces/web/pods"),
        (NODES, None, "/api/v1/nodes"),
        (DEPLOYMENTS, None, "/apis/apps/v1/deployments"),
    ],
)
def test_the_path_of_a_collection(info: ResourceInfo, namespace: str | None, path: str) -> None:
    assert requests.collection_path(info, namespace) == path


@pytest.mark.parametrize(
    ("info", "namespace", "name"),
    [
        (PODS, "", "a"),
        (NODES, "web", "n1"),
        (PODS, "web", ""),
        (PODS, "..", "a"),
        (PODS, "web", "."),
    ],
)
def test_a_path_that_cannot_be_right_is_refused_before_sending(info: ResourceInfo, namespace: str, name: str) -> None:
    with pytest.raises(UsageError):
        requests.object_path(info, namespace, name)


def test_listing_an_empty_namespace_is_not_listing_all() -> None:
    with pytest.raises(UsageError):
        requests.list_page(PODS, ListQuery(namespace=""))


def test_a_page_carries_selection_version_and_limit() -> None:
    query = ListQuery(
        namespace="web", labels="a=b,c in (d)", fields="x=y", resource_version="0", match="Exact", limit=2
    )
    found = requests.list_page(PODS, query)
    assert dict(found.params) == {
        "labelSelector": "a=b,c in (d)",
        "fieldSelector": "x=y",
        "resourceVersion": "0",
        "resourceVersionMatch": "Exact",
        "limit": "2",
    }
    assert found.target.startswith("/api/v1/namespaces/web/pods?labelSelector=a%3Db%2Cc+in+%28d%29&")
    assert found.repeatable


def test_a_continued_page_names_no_version() -> None:
    found = requests.list_page(PODS, ListQuery(resource_version="5", match="Exact", limit=2, continue_="token"))
    assert dict(found.params) == {"limit": "2", "continue": "token"}


@pytest.mark.parametrize(
    ("initial", "match", "wanted"),
    [
        (False, "", {}),
        (True, "", {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}),
        (False, "NotOlderThan", {"resourceVersionMatch": "NotOlderThan"}),
    ],
)
def test_a_watch_asks_for_bookmarks_and_on_request_for_a_streaming_list(
    initial: bool, match: str, wanted: dict[str, str]
) -> None:
    query = WatchQuery(
        resource_version="5", match=match, send_initial_events=initial, timeout_seconds=300, idle_seconds=75
    )
    assert dict(requests.watch(PODS, query).params) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "5",
        **wanted,
    }


def test_metadata_only_is_a_matter_of_the_accept_header() -> None:
    assert "as=PartialObjectMetadata;" in requests.get(PODS, "web", "a", metadata_only=True).accept
    assert "as=PartialObjectMetadataList;" in requests.list_page(PODS, ListQuery(metadata_only=True)).accept
    watched = requests.watch(PODS, WatchQuery(timeout_seconds=1, idle_seconds=1, metadata_only=True))
    assert "as=PartialObjectMetadata;" in watched.accept
    assert "Partial" not in requests.get(PODS, "web", "a").accept


def apply(body: dict[str, Any], **options: Any) -> requests.Request:
    chosen = {"manager": "m", "force": False, "subresource": "", "dry_run": False, **options}
    return requests.apply(DEPLOYMENTS, body, **chosen)


def test_an_apply_drops_managed_fields_and_names_the_kind() -> None:
    intent: dict[str, Any] = {
        "metadata": {"name": "a", "namespace": "web", "managedFields": []},
        "spec": {"x": None},
    }
    found = apply(intent)
    assert found.body is not None
    assert json.loads(found.body) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "web"},
        "spec": {"x": None},
    }
    assert found.content_type == "application/apply-patch+yaml"
    assert intent["metadata"]["managedFields"] == []


@pytest.mark.parametrize("text", ["half \ud800", {"\udfff": "half"}], ids=["value", "key"])
def test_half_of_a_surrogate_pair_is_refused_before_sending_with_remedy(text: Any) -> None:
    body = {"metadata": {"name": "a", "namespace": "web"}, "data": {"x": text}}
    with pytest.raises(UsageError, match=r"^apply pods web/a: .* surrogate pair .*errors='replace'"):
        requests.apply(PODS, body, manager="me", force=False, subresource="", dry_run=False)


def test_an_apply_without_odd_characters_is_sent_byte_for_byte_as_json() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "web"},
        "text": 'é\U0001f600"\\ ' * 300,
    }
    sent = requests.apply(PODS, body, manager="me", force=False, subresource="", dry_run=False).body
    assert sent == json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def test_an_apply_carries_its_field_manager_and_force() -> None:
    meta = {"metadata": {"name": "a", "namespace": "web"}}
    assert apply(meta).params == (("fieldManager", "m"),)
    forced = apply(meta, force=True, dry_run=True, subresource="status")
    assert forced.params == (("fieldManager", "m"), ("force", "true"), ("dryRun", "All"))
    assert forced.path == "/apis/apps/v1/namespaces/web/deployments/a/status"
    assert forced.what == "apply deployments.apps/status web/a"


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (requests.get(PODS, "web", "a"), True),
        (apply({"metadata": {"name": "a", "namespace": "web"}}), True),
        (apply({"metadata": {"name": "a", "namespace": "web", "resourceVersion": "5"}}), False),
        (
            requests.create(PODS, {"metadata": {"generateName": "a-", "namespace": "web"}}, manager="m", dry_run=False),
            False,
        ),
        (
            requests.create(PODS, {"metadata": {"generateName": "a-", "namespace": "web"}}, manager="m", dry_run=True),
            True,
        ),
        (
            requests.replace(
                PODS, {"metadata": {"name": "a", "namespace": "web"}}, manager="m", subresource="", dry_run=False
            ),
            False,
        ),
        (
            requests.delete(PODS, "web", "a", uid="u", resource_version="", propagation="Background", dry_run=False),
            True,
        ),
        (
            requests.delete(PODS, "web", "a", uid="", resource_version="", propagation="Background", dry_run=False),
            False,
        ),
    ],
    ids=lambda value: value.what if isinstance(value, requests.Request) else str(value),
)
def test_only_requests_that_are_harmless_twice_are_repeatable(found: requests.Request, wanted: bool) -> None:
    assert found.repeatable is wanted


def patch(change: Any, style: Any) -> requests.Request:
    return requests.patch(PODS, "web", "a", change, style=style, manager="m", subresource="", dry_run=False)


@pytest.mark.parametrize(
    ("change", "style", "content_type"),
    [
        ({"a": None}, "merge", "application/merge-patch+json"),
        ({"a": 1}, "strategic", "application/strategic-merge-patch+json"),
        ([{"op": "test"}], "json", "application/json-patch+json"),
    ],
)
def test_a_patch_has_the_type_of_its_style_and_keeps_nulls(change: Any, style: str, content_type: str) -> None:
    found = patch(change, style)
    assert found.body is not None
    assert json.loads(found.body) == change
    assert found.content_type == content_type
    assert not found.repeatable


@pytest.mark.parametrize(("change", "style"), [({}, "json"), ([], "merge"), ({}, "other")])
def test_a_patch_of_the_wrong_shape_is_refused(change: Any, style: str) -> None:
    with pytest.raises(UsageError):
        patch(change, style)


def test_a_deletion_carries_its_preconditions() -> None:
    found = requests.delete(PODS, "web", "a", uid="u", resource_version="5", propagation="Foreground", dry_run=True)
    assert found.body is not None
    assert json.loads(found.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "dryRun": ["All"],
    }


def test_a_new_object_needs_a_name() -> None:
    with pytest.raises(UsageError, match="generateName"):
        requests.create(PODS, {"metadata": {"namespace": "web"}}, manager="m", dry_run=False)


def test_bodies_stay_out_of_representations() -> None:
    found = requests.create(
        PODS,
        {"metadata": {"name": "a", "namespace": "web"}, "data": {"key": "s3cret"}},
        manager="m",
        dry_run=False,
    )
    assert "s3cret" not in repr(found)
    assert "s3cret" not in found.what
