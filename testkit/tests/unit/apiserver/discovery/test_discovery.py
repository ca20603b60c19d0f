"""How discovery chooses a form, caches its responses, and notices new resources."""

import json
import re
from typing import Any

import pytest

from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.discovery import Discovery
from konverge_testing.apiserver.discovery.documents import references
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.varints import varint

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
BUILTIN = builtin({})


def custom(plural: str, kind: str, *versions: str, **schema: Any) -> Resource:
    made = tuple(
        Version(name, Node({"type": "object", **schema}), storage=index == 0) for index, name in enumerate(versions)
    )
    return Resource(group="x.example.com", plural=plural, kind=kind, singular=kind.lower(), versions=made, custom=True)


class Served:
    """A discovery whose resources a test changes."""

    def __init__(self, *more: Resource) -> None:
        self.resources: list[Resource] = [*BUILTIN, *more]
        self.discovery = Discovery(lambda: self.resources)

    def ask(self, path: str, accept: str = "application/json") -> Any:
        answer = self.discovery.answer(path, accept)
        return None if answer is None or answer.status == 404 else json.loads(answer.body)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (f"{V2},{V2BETA1},application/json", "APIGroupDiscoveryList"),
        (f"{V2BETA1},application/json", "APIGroupList"),
        (f"application/json;q=0.5, {V2}", "APIGroupDiscoveryList"),
        ("application/json", "APIGroupList"),
        (f"{PROTOBUF},application/json", "APIGroupList"),
        ("*/*", "APIGroupList"),
        ("", "APIGroupList"),
    ],
)
def test_the_first_acceptable_form_is_served(accept: str, kind: str) -> None:
    assert Served().ask("/apis", accept)["kind"] == kind


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1"])
@pytest.mark.parametrize("accept", [PROTOBUF, "application/json;q=0", "text/html", V2BETA1])
def test_a_client_that_accepts_no_json_is_refused(path: str, accept: str) -> None:
    with pytest.raises(StatusError) as refused:
        Served().discovery.answer(path, accept)
    assert refused.value.code == 406


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_an_openapi_document_in_another_form_is_refused_with_an_empty_body(path: str) -> None:
    answer = Served().discovery.answer(path, "text/html")
    assert answer is not None
    assert (answer.status, answer.body) == (406, b"")


def test_the_index_of_openapi_is_served_to_every_client_as_text() -> None:
    answer = Served().discovery.answer("/openapi/v3", "text/html")
    assert answer is not None
    assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
    assert "api/v1" in json.loads(answer.body)["paths"]


@pytest.mark.parametrize(
    "path", ["/apis/apps/v2", "/apis/apps/v2/deployments", "/api/v2", "/apis/apps/v1/deployments", "/api/v1/pods"]
)
def test_discovery_leaves_paths_of_served_groups_to_the_registry(path: str) -> None:
    assert Served().discovery.answer(path, "application/json") is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/none", b"404 page not found\n"),
        ("/apis/none/v1/things", b"404 page not found\n"),
        ("/apis//v1", b"404 page not found\n"),
        ("/openapi", b"404 page not found\n"),
        ("/openapi/v4", b"404 page not found\n"),
        ("/.well-known/openid-configuration", b"404 page not found\n"),
        ("/metrics", b"404 page not found\n"),
        ("/healthzz", b"404 page not found\n"),
        ("/readyz/none", b"404 page not found\n"),
        ("/openapi/v3/api", b""),
        ("/openapi/v3/api/v2", b""),
        ("/openapi/v3/apis/none/v1", b""),
        ("/openapi/v3/apis//v1", b""),
    ],
)
def test_an_unknown_path_is_a_plain_404(path: str, body: bytes) -> None:
    answer = Served().discovery.answer(path, "application/json")
    assert answer is not None
    assert (answer.status, answer.body) == (404, body)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/etcd"])
def test_health_is_a_plain_ok_for_every_client(path: str) -> None:
    answer = Served().discovery.answer(path, "application/json")
    assert answer is not None
    assert (answer.status, answer.body, answer.content_type) == (200, b"ok", "text/plain; charset=utf-8")


def test_the_version_is_one_that_clients_can_compare() -> None:
    found = Served().ask("/version")
    assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "36", "v1.36.3+konverge")


def test_every_path_of_the_root_is_answered() -> None:
    served = Served(custom("things", "Thing", "v1"))
    for path in served.ask("/")["paths"]:
        assert getattr(served.discovery.answer(path, "application/json"), "status", 0) == 200, path


def test_a_response_with_a_known_etag_is_not_sent_again() -> None:
    discovery = Served().discovery
    for path in ("/apis", "/openapi/v3", "/openapi/v3/apis/apps/v1"):
        first = discovery.answer(path, "application/json")
        assert first is not None
        again = discovery.answer(path, "application/json", first.headers["ETag"])
        assert again is not None
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", first.headers["ETag"])


def test_a_new_definition_changes_its_own_url_and_no_other() -> None:
    served = Served(custom("things", "Thing", "v1"))
    before = served.ask("/openapi/v3")["paths"]
    served.resources.append(custom("others", "Other", "v1"))
    after = served.ask("/openapi/v3")["paths"]
    assert {path for path in after if after[path] != before.get(path)} == {"apis/x.example.com/v1"}
    assert [each["name"] for each in served.ask("/apis/x.example.com/v1")["resources"]] == ["others", "things"]
    served.resources[-2:] = []
    assert served.ask("/apis/x.example.com") is None
    assert served.ask("/openapi/v3/apis/x.example.com/v1") is None


def test_another_schema_gives_another_url() -> None:
    served = Served(custom("things", "Thing", "v1"))
    before = served.ask("/openapi/v3")["paths"]["apis/x.example.com/v1"]
    served.resources[-1] = custom("things", "Thing", "v1", properties={"spec": {"type": "object"}})
    assert served.ask("/openapi/v3")["paths"]["apis/x.example.com/v1"] != before


def test_every_url_of_the_index_returns_a_complete_document() -> None:
    served = Served(custom("things", "Thing", "v1", "v2alpha1"))
    for path, entry in served.ask("/openapi/v3")["paths"].items():
        url, _, tag = entry["serverRelativeURL"].partition("?hash=")
        assert url == f"/openapi/v3/{path}"
        answer = served.discovery.answer(url, "application/json")
        assert answer is not None
        assert answer.headers["ETag"] == f'"{tag}"'
        document = json.loads(answer.body)
        assert set(references(document)) <= set(document["components"]["schemas"]), path


def test_versions_are_sorted_by_stability_and_number() -> None:
    served = Served(
        custom("things", "Thing", "v1alpha1", "v1", "v1beta2", "v2"), custom("others", "Other", "v1beta10", "weird")
    )
    found = served.ask("/apis/x.example.com")
    assert [each["version"] for each in found["versions"]] == ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "weird"]
    assert found["preferredVersion"]["version"] == "v2"


def test_a_version_that_is_not_served_is_not_listed() -> None:
    hidden = Version("v1", Node({}), served=False, storage=False)
    shown = Version("v2", Node({}))
    resource = Resource(group="x.example.com", plural="things", kind="Thing", versions=(hidden, shown), custom=True)
    served = Served(resource)
    assert [each["version"] for each in served.ask("/apis/x.example.com")["versions"]] == ["v2"]
    assert served.ask("/apis/x.example.com/v1") is None


def test_groups_of_custom_resources_come_last_and_by_name() -> None:
    served = Served()
    served.resources[:0] = [custom("things", "Thing", "v1")]
    names = [each["name"] for each in served.ask("/apis")["groups"]]
    assert (names[0], names[-1]) == ("apiregistration.k8s.io", "x.example.com")


def test_a_custom_schema_is_published_without_being_changed() -> None:
    inside = {"type": "object", "x-kubernetes-embedded-resource": True}
    resource = custom("things", "Thing", "v1", properties={"inside": inside})
    served = Served(resource)
    schema = served.ask("/openapi/v3/apis/x.example.com/v1")["components"]["schemas"]["com.example.x.v1.Thing"]
    assert schema["properties"]["inside"]["required"] == ["kind", "apiVersion"]
    assert inside == {"type": "object", "x-kubernetes-embedded-resource": True}
    assert "metadata" not in resource.versions[0].schema.raw["properties"]


def test_openapi_v2_holds_every_definition_that_it_refers_to() -> None:
    served = Served()
    served.resources.append(custom("things", "Thing", "v1"))
    document = served.ask("/openapi/v2")
    assert {"io.k8s.api.core.v1.Pod", "com.example.x.v1.Thing"} <= set(document["definitions"])
    referred = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(document)))
    assert referred <= set(document["definitions"])
    assert "#/components" not in json.dumps(document)


def test_openapi_v2_in_protobuf_says_what_it_says_in_json() -> None:
    served = Served()
    served.resources.append(custom("things", "Thing", "v1"))
    wanted = served.ask("/openapi/v2")
    response = served.discovery.answer("/openapi/v2", OPENAPI_PROTOBUF)
    assert response is not None
    assert (response.status, response.content_type) == (200, OPENAPI_PROTOBUF.replace("@", "."))
    document = fields(response.body)
    assert document[1] == [b"2.0"]
    definitions = named(document[9][0])
    assert list(definitions) == list(wanted["definitions"])
    container = fields(definitions["io.k8s.api.core.v1.Container"])
    expected = wanted["definitions"]["io.k8s.api.core.v1.Container"]
    properties = named(container[25][0])
    assert {name: fields(one).get(22) for name, one in properties.items()} == {
        name: [b"\x0a" + bytes([len(one["type"])]) + one["type"].encode()] if "type" in one else None
        for name, one in expected["properties"].items()
    }
    [item] = fields(fields(properties["ports"])[23][0])[1]
    assert fields(item)[1] == [b"#/definitions/io.k8s.api.core.v1.ContainerPort"]
    extensions = named(fields(definitions["com.example.x.v1.Thing"])[31][0], repeated=False)
    kinds = wanted["definitions"]["com.example.x.v1.Thing"]["x-kubernetes-group-version-kind"]
    assert json.loads(fields(extensions["x-kubernetes-group-version-kind"])[2][0]) == kinds


def test_openapi_v2_serves_the_first_accepted_form_and_confirms_cached_copies() -> None:
    discovery = Served().discovery
    for accept, form in ((f"{OPENAPI_PROTOBUF},*/*", "protobuf"), (f"*/*,{OPENAPI_PROTOBUF}", "json")):
        response = discovery.answer("/openapi/v2", accept)
        assert response is not None
        assert form in response.content_type
    kept = discovery.answer("/openapi/v2", OPENAPI_PROTOBUF)
    assert kept is not None
    again = discovery.answer("/openapi/v2", OPENAPI_PROTOBUF, kept.headers["ETag"])
    assert again is not None
    assert (again.status, again.body) == (304, b"")


def fields(message: bytes) -> dict[int, list[bytes]]:
    """Return the fields of a Protobuf message that hold bytes, by their numbers; the others are skipped."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 2:
            size, at = varint(message, at)
            found.setdefault(key >> 3, []).append(message[at : at + size])
            at += size
        elif key & 7 == 1:
            at += 8
        else:
            _, at = varint(message, at)
    return found


def named(message: bytes, *, repeated: bool = True) -> dict[str, bytes]:
    """Return the entries of a message of named values; without `repeated` the message is a single entry."""
    entries = fields(message)[1] if repeated else [message]
    parts = [fields(entry) for entry in entries]
    return {part[1][0].decode(): part[2][0] for part in parts}


def test_explain_shows_our_own_description() -> None:
    schemas = Served().ask("/openapi/v3/api/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.Pod"]["description"] == "Containers that run together on one node."
