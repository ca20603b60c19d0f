"""The generated CustomResourceDefinitions on a real API server: what it accepts, refuses, defaults, prunes and merges."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, Field

from konverge.crds import (
    Atomic,
    Cel,
    Column,
    CustomResource,
    Duration,
    EmbeddedResource,
    Immutable,
    IntOrString,
    ListMap,
    ListSet,
    Model,
    Nullable,
    PreserveUnknown,
    Scale,
    Status,
    all_manifests,
    crd,
    crd_manifests,
    crd_stub,
    resource,
    to_yaml,
)
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.kinds import kind
from konverge_testing import ControlPlane
from konverge_testing.api import Response

pytestmark = pytest.mark.control_plane

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Part(Model):
    name: str
    port: Annotated[int | str, IntOrString()] = "http"
    weight: Annotated[float, Field(gt=0, le=1)] | None = None
    zone: Annotated[str, Immutable()] | None = None


@Cel("self.min <= self.max", "min is above max", reason="FieldValueForbidden", field_path=".min")
class Range(Model):
    min: Annotated[int, Field(ge=0, lt=100)] = 1
    max: int = 5


class SampleSpec(Model):
    size: Literal["small", "large"] = "small"
    namespace: Annotated[str, Immutable("the namespace stays")] | None = None
    range: Range = Range()
    every: Duration | None = None
    until: AwareDatetime | None = None
    parts: Annotated[tuple[Part, ...], Field(max_length=5), ListMap("name")] = ()
    tags: Annotated[tuple[str, ...], ListSet()] = ()
    order: tuple[str, ...] = ()
    selector: Annotated[dict[str, str], Atomic()] = Field(default_factory=dict)
    labels: dict[str, Annotated[str, Field(max_length=5)]] = Field(default_factory=dict)
    values: Annotated[dict[str, Any], PreserveUnknown()] | None = None
    template: Annotated[dict[str, Any], EmbeddedResource()] | None = None
    limit: Annotated[int | None, Nullable()] = None
    replicas: int = 1


class SampleStatus(Status):
    replicas: int = 0
    selector: str | None = None


@resource(
    "crds.konverge.test/v1",
    short_names=("smp",),
    categories=("samples",),
    conditions=("Ready",),
    columns=(Column("Size", ".spec.size"), Column.condition("Ready"), Column("Tags", ".spec.tags", priority=1)),
    rules=(Cel("self.metadata.name != 'forbidden'", "another name, please"),),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
)
class Sample(CustomResource[SampleSpec, SampleStatus]):
    """Everything that a model can say."""


class OldSpec(Model):
    size: str = "small"


@resource("crds.konverge.test/v1beta1", kind="Turn", storage=False, deprecated="v1beta1 goes away; use v1")
class OldTurn(CustomResource[OldSpec, Status]):
    """The old version."""


@resource("crds.konverge.test/v1", kind="Turn")
class Turn(CustomResource[OldSpec, Status]):
    """The new version."""


STUB = kind("stub.konverge.test/v2", "Thing")
MANIFESTS = [*all_manifests(), *crd_manifests([Sample, OldTurn, Turn]), crd_stub(STUB)]


async def request(plane: ControlPlane, method: str, path: str, body: dict[str, Any] | None = None) -> Response:
    return await asyncio.to_thread(plane.blocking.api.request, method, path, body)


async def install(plane: ControlPlane) -> None:
    """Install every definition of this file and wait until its kind is served."""
    await plane.kubectl("apply", "--server-side", "-f", "-", stdin=to_yaml(*MANIFESTS))
    names = [f"crd/{manifest['metadata']['name']}" for manifest in MANIFESTS]
    await plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    async with asyncio.timeout(60):
        for manifest in MANIFESTS:
            spec = manifest["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            while (await request(plane, "GET", path)).status != 200:
                await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The session's control plane with the definitions of this file."""
    asyncio.run(install(control_plane))
    return control_plane


def path_of(cls: type[CustomResource[Any, Any]], namespace: str, name: str = "", query: str = "") -> str:
    found = cls.kind_of_resource()
    where = f"/apis/{found.api_version}/namespaces/{namespace}/{found.plural}"
    return where + (f"/{name}" if name else "") + query


async def create(plane: ControlPlane, namespace: str, obj: CustomResource[Any, Any]) -> dict[str, Any]:
    answer = await request(plane, "POST", path_of(type(obj), namespace), obj.to_dict())
    assert answer.ok, answer.text
    return answer.document()


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A JSON merge patch: null removes."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


async def test_every_definition_is_structural_and_established(plane: ControlPlane) -> None:
    for manifest in MANIFESTS:
        stored = (await request(plane, "GET", f"{DEFINITIONS}/{manifest['metadata']['name']}")).document()
        conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions
        assert conditions.get("KubernetesAPIApprovalPolicyConformant", "True") == "True"


async def test_the_server_stores_the_schema_as_it_was_generated(plane: ControlPlane) -> None:
    for manifest in MANIFESTS:
        stored = (await request(plane, "GET", f"{DEFINITIONS}/{manifest['metadata']['name']}")).document()
        assert [version["schema"] for version in stored["spec"]["versions"]] == [
            version["schema"] for version in manifest["spec"]["versions"]
        ]


MANAGED: dict[str, Any] = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com/stable", "name": "shop", "version": "1.2.3"},
    "release": {"name": "shop", "namespace": "web"},
    "values": {"source": "inline", "inline": {"replicas": 2, "deep": {"anything": [1, {"a": None}]}}},
}
PLACEHOLDER: dict[str, Any] = {"mode": "placeholder", "appRef": {"catalogId": "shop"}}
REF = {"name": "shop-values", "key": "values.yaml"}
OCI = {"sourceType": "oci", "url": "oci://registry.example.com:5000/charts"}

ACCEPTED: dict[str, dict[str, Any]] = {
    "managed from a chart repository": MANAGED,
    "mode spelt out": merged(MANAGED, {"mode": "managed"}),
    "plain http": merged(MANAGED, {"chart": {"url": "http://charts.local:8080"}}),
    "managed from an OCI registry": merged(MANAGED, {"chart": OCI}),
    "an OCI URL that ends with the chart": merged(MANAGED, {"chart": {**OCI, "url": "oci://registry.example.com/org/shop"}}),
    "a version with a v": merged(MANAGED, {"chart": {"version": "v1.14.0"}}),
    "a pre-release with build metadata": merged(MANAGED, {"chart": {"version": "1.2.3-rc.1+sha.5114f85"}}),
    "empty inline values": merged(MANAGED, {"values": {"inline": {}}}),
    "values from a Secret": merged(MANAGED, {"values": {"source": "secretRef", "inline": None, "secretRef": REF}}),
    "values from a ConfigMap": merged(MANAGED, {"values": {"source": "configMapRef", "inline": None, "configMapRef": REF}}),
    "a service account": merged(MANAGED, {"serviceAccountName": "shop-installer"}),
    "a placeholder": PLACEHOLDER,
    "a placeholder that names a release": merged(PLACEHOLDER, {"release": MANAGED["release"]}),
    "a placeholder with integrations": merged(PLACEHOLDER, {"integrations": {"ingress": {"enabled": True, "host": "shop.example.com"}}}),
}  # fmt: skip

NEEDS_ALL = "mode managed needs chart, release and values"
TAKES_NONE = "mode placeholder takes no chart or values"
ONE_SOURCE = "write exactly the field that source names"
EXACT = "spec.chart.version in body should match"
URL = "spec.chart.url in body should match"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "spec.appRef: Required value"),
    "no catalogue id": (merged(MANAGED, {"appRef": {"catalogId": ""}}), "spec.appRef.catalogId in body should be at least 1 chars long"),
    "an unknown mode": (merged(MANAGED, {"mode": "manual"}), 'Unsupported value: "manual"'),
    "managed without chart": (merged(MANAGED, {"chart": None}), NEEDS_ALL),
    "managed without release": (merged(MANAGED, {"release": None}), NEEDS_ALL),
    "managed without values": (merged(MANAGED, {"values": None}), NEEDS_ALL),
    "managed with nothing at all": ({"appRef": {"catalogId": "shop"}}, NEEDS_ALL),
    "a placeholder with a chart": (merged(PLACEHOLDER, {"chart": MANAGED["chart"]}), TAKES_NONE),
    "a placeholder with values": (merged(PLACEHOLDER, {"values": MANAGED["values"]}), TAKES_NONE),
    "no source of values": (merged(MANAGED, {"values": {"source": None}}), "spec.values.source: Required value"),
    "two sources": (merged(MANAGED, {"values": {"secretRef": REF}}), ONE_SOURCE),
    "another source than named": (merged(MANAGED, {"values": {"inline": None, "secretRef": REF}}), ONE_SOURCE),
    "a named source that is absent": (merged(MANAGED, {"values": {"inline": None}}), ONE_SOURCE),
    "a Secret without key": (merged(MANAGED, {"values": {"source": "secretRef", "inline": None, "secretRef": {"name": "a"}}}), "spec.values.secretRef.key: Required value"),
    "a Secret with an impossible name": (merged(MANAGED, {"values": {"source": "secretRef", "inline": None, "secretRef": {"name": "A_b", "key": "k"}}}), "spec.values.secretRef.name in body should match"),
    "inline values that are no map": (merged(MANAGED, {"values": {"inline": ["a"]}}), "spec.values.inline"),
    "a range of versions": (merged(MANAGED, {"chart": {"version": ">=1.2"}}), EXACT),
    "a caret": (merged(MANAGED, {"chart": {"version": "^1.2.3"}}), EXACT),
    "a wildcard": (merged(MANAGED, {"chart": {"version": "1.x"}}), EXACT),
    "latest": (merged(MANAGED, {"chart": {"version": "latest"}}), EXACT),
    "two numbers": (merged(MANAGED, {"chart": {"version": "1.2"}}), EXACT),
    "leading zeros": (merged(MANAGED, {"chart": {"version": "1.02.3"}}), EXACT),
    "an unknown kind of source": (merged(MANAGED, {"chart": {"sourceType": "git"}}), 'Unsupported value: "git"'),
    "a file": (merged(MANAGED, {"chart": {"url": "file:///etc"}}), URL),
    "a password in the URL": (merged(MANAGED, {"chart": {"url": "https://me:secret@charts.example.com"}}), URL),
    "a query": (merged(MANAGED, {"chart": {"url": "https://charts.example.com/?a=b"}}), URL),
    "helm with an OCI URL": (merged(MANAGED, {"chart": {"url": "oci://registry.example.com/org"}}), "for an oci:// URL write sourceType: oci"),
    "oci with an HTTP URL": (merged(MANAGED, {"chart": {"sourceType": "oci"}}), "sourceType oci needs a URL as in oci://"),
    "oci with a tag": (merged(MANAGED, {"chart": {**OCI, "url": "oci://registry.example.com/org/shop:1.2.3"}}), "without tag or digest"),
    "oci in upper case": (merged(MANAGED, {"chart": {**OCI, "url": "oci://registry.example.com/Org"}}), "lower case"),
    "a chart with a path": (merged(MANAGED, {"chart": {"name": "org/shop"}}), "spec.chart.name in body should match"),
    "a release name that Helm refuses": (merged(MANAGED, {"release": {"name": "x" * 54}}), "spec.release.name: Too long: may not be more than 53"),
    "a service account that is none": (merged(MANAGED, {"serviceAccountName": "a/b"}), "spec.serviceAccountName in body should match"),
    "a namespace that is none": (merged(MANAGED, {"release": {"namespace": "a.b"}}), "spec.release.namespace in body should match"),
}  # fmt: skip


def instance(spec: dict[str, Any], name: str = "shop") -> dict[str, Any]:
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
async def test_a_legal_application_instance_is_accepted(
    plane: ControlPlane, namespace: str, spec: dict[str, Any]
) -> None:
    answer = await request(plane, "POST", path_of(ApplicationInstance, namespace, query="?dryRun=All"), instance(spec))
    assert answer.status == 201, answer.text
    decoded = ApplicationInstance.decode(answer.document())
    assert decoded.to_dict()["spec"] == answer.document()["spec"] == merged(spec, {"mode": spec.get("mode", "managed")})


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
async def test_an_illegal_application_instance_is_refused_with_what_to_do(
    plane: ControlPlane, namespace: str, spec: dict[str, Any], words: str
) -> None:
    answer = await request(plane, "POST", path_of(ApplicationInstance, namespace, query="?dryRun=All"), instance(spec))
    assert answer.status == 422, answer.text
    assert words in answer.document()["message"]


BLOCKED = [
    {
        "type": "Blocked",
        "status": "True",
        "reason": "MissingDependencies",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
]
REF_STATUS = {"helmReleaseRef": {"name": "shop", "namespace": "web"}}
STAYS = "an instance that owns or may own a release cannot become a placeholder"
# name: spec before, status, spec after, text of the rejection ("" if it is accepted)
UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "another version": (MANAGED, {}, merged(MANAGED, {"chart": {"version": "2.0.0"}}), ""),
    "another registry": (MANAGED, {}, merged(MANAGED, {"chart": OCI}), ""),
    "other values": (MANAGED, {}, merged(MANAGED, {"values": {"source": "secretRef", "inline": None, "secretRef": REF}}), ""),
    "another chart": (MANAGED, {}, merged(MANAGED, {"chart": {"name": "other"}}), "the chart's name cannot be changed"),
    "another release name": (MANAGED, {}, merged(MANAGED, {"release": {"name": "other"}}), "the release cannot be renamed"),
    "another release namespace": (MANAGED, {}, merged(MANAGED, {"release": {"namespace": "other"}}), "cannot be moved to another namespace"),
    "a placeholder becomes managed": (PLACEHOLDER, {}, {**MANAGED, "mode": "managed"}, ""),
    "managed becomes a placeholder before anything was seen": (MANAGED, {}, PLACEHOLDER, STAYS),
    "managed becomes a placeholder while it is ready": (MANAGED, {**REF_STATUS, "conditions": [{**BLOCKED[0], "type": "Ready"}]}, PLACEHOLDER, STAYS),
    "managed becomes a placeholder while blocked over a release": (MANAGED, {**REF_STATUS, "conditions": BLOCKED}, PLACEHOLDER, STAYS),
    "managed becomes a placeholder that was blocked from the start": (MANAGED, {"conditions": BLOCKED}, PLACEHOLDER, ""),
}  # fmt: skip


@pytest.mark.parametrize(("before", "status", "after", "words"), UPDATES.values(), ids=UPDATES)
async def test_fields_of_an_application_instance_that_may_change(
    plane: ControlPlane,
    namespace: str,
    before: dict[str, Any],
    status: dict[str, Any],
    after: dict[str, Any],
    words: str,
) -> None:
    created = await request(plane, "POST", path_of(ApplicationInstance, namespace), instance(before))
    assert created.status == 201, created.text
    stored = await request(
        plane,
        "PUT",
        path_of(ApplicationInstance, namespace, "shop", "/status"),
        {**created.document(), "status": status},
    )
    assert stored.status == 200, stored.text
    answer = await request(
        plane, "PUT", path_of(ApplicationInstance, namespace, "shop"), {**stored.document(), "spec": after}
    )
    assert answer.status == (422 if words else 200), answer.text
    assert words in answer.document().get("message", "")


async def test_no_rule_can_compare_with_the_namespace_of_the_object(plane: ControlPlane) -> None:
    """The reason why release.namespace == metadata.namespace is left to the reconciler; if this fails, it can become a rule."""
    definition = crd(ApplicationInstance)
    definition["metadata"]["name"] = "others.apps.vworkspace.io"
    definition["spec"]["names"] = {"kind": "Other", "plural": "others", "singular": "other", "listKind": "OtherList"}
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    accepted = await request(plane, "POST", f"{DEFINITIONS}?dryRun=All", definition)
    assert accepted.status == 201, accepted.text
    schema["x-kubernetes-validations"].append({"rule": "self.spec.release.namespace == self.metadata.namespace"})
    answer = await request(plane, "POST", f"{DEFINITIONS}?dryRun=All", definition)
    assert answer.status == 422
    assert "undefined field 'namespace'" in answer.document()["message"]


SAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "an empty spec": ({}, ""),
    "everything": (
        {
            "size": "large",
            "namespace": "a",
            "range": {"min": 99, "max": 100},
            "every": "1h30m",
            "until": "2030-01-01T00:00:00Z",
            "parts": [{"name": "a", "port": 80, "weight": 1}, {"name": "b", "port": "http", "weight": 0.1}],
            "tags": ["a", "b"],
            "order": ["b", "b"],
            "selector": {"a": "b"},
            "labels": {"any/key": "value"},
            "values": {"a": {"b": [1, None]}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"any": 1}},
            "limit": None,
        },
        "",
    ),
    "an unknown size": ({"size": "medium"}, 'Unsupported value: "medium"'),
    "null where the default stands": ({"size": None}, ""),
    "at an exclusive bound": ({"range": {"min": 100, "max": 200}}, "should be less than 100"),
    "a rule of a nested model": ({"range": {"min": 6}}, "spec.range.min: Forbidden: min is above max"),
    "a weight of zero": ({"parts": [{"name": "a", "weight": 0}]}, "should be greater than 0"),
    "a port that is a bool": ({"parts": [{"name": "a", "port": True}]}, "spec.parts[0].port"),
    "an item without its key": ({"parts": [{"port": 80}]}, "spec.parts[0].name: Required value"),
    "an item twice": ({"parts": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    "too many items": ({"parts": [{"name": str(number)} for number in range(6)]}, "must have at most 5 items"),
    "a tag twice": ({"tags": ["a", "a"]}, "Duplicate value"),
    "days are no duration": ({"every": "30d"}, "spec.every in body should match"),
    "a time that is none": ({"until": "tomorrow"}, "spec.until in body must be of type date-time"),
    "a label that is too long": ({"labels": {"a": "abcdef"}}, "spec.labels.a: Too long"),
    "a template without kind": ({"template": {"apiVersion": "v1"}}, "spec.template.kind: Required value"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), SAMPLES.values(), ids=SAMPLES)
async def test_every_marker_means_to_the_server_what_it_says(
    plane: ControlPlane, namespace: str, spec: dict[str, Any], words: str
) -> None:
    body = {"apiVersion": "crds.konverge.test/v1", "kind": "Sample", "metadata": {"name": "a"}, "spec": spec}
    answer = await request(plane, "POST", path_of(Sample, namespace, query="?dryRun=All"), body)
    assert answer.status == (422 if words else 201), answer.text
    assert words in answer.document().get("message", "")
    if not words:
        stored = answer.document()["spec"]
        assert stored["size"] in {"small", "large"}
        assert Sample.decode(answer.document()).to_dict()["spec"] == stored


async def test_a_rule_about_the_whole_object_is_kept(plane: ControlPlane, namespace: str) -> None:
    answer = await request(plane, "POST", path_of(Sample, namespace), Sample.new("forbidden").to_dict())
    assert answer.status == 422
    assert "another name, please" in answer.document()["message"]


async def test_the_server_fills_in_the_defaults_of_the_model(plane: ControlPlane, namespace: str) -> None:
    sent = Sample.new("a", namespace, spec=SampleSpec(parts=(Part(name="a"),)))
    assert sent.to_dict()["spec"] == {"parts": [{"name": "a"}]}
    stored = await create(plane, namespace, sent)
    assert stored["spec"] == {
        "size": "small",
        "range": {"min": 1, "max": 5},
        "parts": [{"name": "a", "port": "http"}],
        "replicas": 1,
    }
    bare = await create(plane, namespace, Sample.new("b", namespace))
    assert bare["spec"] == {"size": "small", "range": {"min": 1, "max": 5}, "replicas": 1}
    decoded = Sample.decode(stored)
    assert (decoded.spec, decoded.namespace, decoded.generation) == (sent.spec, namespace, 1)
    assert decoded.uid
    assert decoded.status == SampleStatus()


async def test_fields_unknown_to_the_model_are_pruned_and_preserved_fields_kept(
    plane: ControlPlane, namespace: str
) -> None:
    spec = {"unknown": 1, "range": {"unknown": 1}, "values": {"unknown": {"deep": 1}}}
    body = {"apiVersion": "crds.konverge.test/v1", "kind": "Sample", "metadata": {"name": "a"}, "spec": spec}
    stored = (await request(plane, "POST", path_of(Sample, namespace), body)).document()["spec"]
    assert "unknown" not in stored
    assert "unknown" not in stored["range"]
    assert stored["values"] == {"unknown": {"deep": 1}}


async def test_none_is_absent_unless_the_field_is_nullable(plane: ControlPlane, namespace: str) -> None:
    spec = SampleSpec(limit=None, every=None, template=None)
    stored = await create(plane, namespace, Sample.new("a", namespace, spec=spec))
    assert stored["spec"]["limit"] is None
    assert "every" not in stored["spec"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"namespace": "a"}, ""),
        ({"namespace": "a"}, {"namespace": "b"}, "the namespace stays"),
        ({"namespace": "a"}, {}, "namespace cannot be removed once it is set"),
        (
            {"parts": [{"name": "a", "zone": "x"}, {"name": "b"}]},
            {"parts": [{"name": "b"}, {"name": "a", "zone": "x"}]},
            "",
        ),
        ({"parts": [{"name": "a", "zone": "x"}]}, {"parts": [{"name": "a", "zone": "y"}]}, "cannot be changed"),
        ({"parts": [{"name": "a", "zone": "x"}]}, {"parts": [{"name": "a"}]}, "zone cannot be removed once it is set"),
        ({"parts": [{"name": "a", "zone": "x"}]}, {"parts": [{"name": "c", "zone": "y"}]}, ""),
    ],
    ids=["set", "changed", "removed", "items move", "changed in an item", "removed from an item", "another item"],
)
async def test_an_immutable_field_stays_as_it_was_set(
    plane: ControlPlane, namespace: str, before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    stored = await create(plane, namespace, Sample.decode({"metadata": {"name": "a"}, "spec": before}))
    answer = await request(plane, "PUT", path_of(Sample, namespace, "a"), {**stored, "spec": after})
    assert answer.status == (422 if words else 200), answer.text
    assert words in answer.document().get("message", "")


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    moment = "2030-01-01T00:00:00Z"
    return {"type": type_, "status": status, "reason": "Tested", "message": "", "lastTransitionTime": moment}


async def apply_status(plane: ControlPlane, namespace: str, manager: str, status: dict[str, Any]) -> None:
    body = {"apiVersion": "crds.konverge.test/v1", "kind": "Sample", "metadata": {"name": "a", "namespace": namespace}}
    await plane.kubectl(
        *("apply", "--server-side", "--subresource=status", "--field-manager", manager, "-f", "-"),
        stdin=json.dumps({**body, "status": status}),
    )


async def test_two_managers_keep_their_own_conditions(plane: ControlPlane, namespace: str) -> None:
    await create(plane, namespace, Sample.new("a", namespace))
    await apply_status(plane, namespace, "one", {"conditions": [condition("Ready")], "replicas": 3})
    await apply_status(plane, namespace, "two", {"conditions": [condition("Copied", "False")]})
    await apply_status(plane, namespace, "one", {"conditions": [condition("Ready", "False")], "replicas": 3})
    sample = Sample.decode((await request(plane, "GET", path_of(Sample, namespace, "a"))).document())
    assert {found.type: found.status for found in sample.conditions} == {"Ready": "False", "Copied": "False"}
    assert (sample.status.replicas, sample.condition("Copied").reason) == (3, "Tested")
    await apply_status(plane, namespace, "two", {})
    left = Sample.decode((await request(plane, "GET", path_of(Sample, namespace, "a"))).document())
    assert [found.type for found in left.conditions] == ["Ready"]


async def test_the_status_is_written_by_its_subresource_only(plane: ControlPlane, namespace: str) -> None:
    sample = Sample.new("a", namespace)
    sample.status.replicas = 3
    stored = await create(plane, namespace, sample)
    assert "status" not in stored
    answer = await request(
        plane,
        "PUT",
        path_of(Sample, namespace, "a", "/status"),
        {**stored, **sample.to_dict(), "metadata": stored["metadata"]},
    )
    assert answer.document()["status"] == {"replicas": 3}


async def test_a_condition_without_a_time_is_refused(plane: ControlPlane, namespace: str) -> None:
    stored = await create(plane, namespace, Sample.new("a", namespace))
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": ""}]}
    answer = await request(plane, "PUT", path_of(Sample, namespace, "a", "/status"), {**stored, "status": status})
    assert answer.status == 422
    assert "status.conditions[0].lastTransitionTime: Required value" in answer.document()["message"]


async def test_kubectl_shows_the_columns_and_knows_the_names(plane: ControlPlane, namespace: str) -> None:
    await create(plane, namespace, Sample.new("a", namespace))
    await apply_status(plane, namespace, "one", {"conditions": [condition("Ready")]})
    lines = (await plane.kubectl("get", "smp", "-n", namespace)).splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "READY", "AGE"]
    assert lines[1].split()[:3] == ["a", "small", "True"]
    assert (await plane.kubectl("get", "samples", "-n", namespace, "-o", "name")).split() == [
        "sample.crds.konverge.test/a"
    ]
    await request(plane, "POST", path_of(ApplicationInstance, namespace), instance(MANAGED))
    shown = (await plane.kubectl("get", "appinst", "-n", namespace)).splitlines()
    assert shown[0].split() == ["NAME", "READY", "CHART", "VERSION", "AGE"]
    assert shown[1].split()[:3] == ["shop", "shop", "1.2.3"]


async def test_the_scale_subresource_works(plane: ControlPlane, namespace: str) -> None:
    await create(plane, namespace, Sample.new("a", namespace, spec=SampleSpec(replicas=2)))
    scale = (await request(plane, "GET", path_of(Sample, namespace, "a", "/scale"))).document()
    assert scale["spec"]["replicas"] == 2


async def test_the_versions_of_a_kind_are_served_side_by_side(plane: ControlPlane, namespace: str) -> None:
    await create(plane, namespace, OldTurn.new("a", namespace, spec=OldSpec(size="large")))
    answer = await request(plane, "GET", path_of(Turn, namespace, "a"))
    turn = Turn.decode(answer.document())
    assert (turn.spec.size, answer.document()["apiVersion"]) == ("large", "crds.konverge.test/v1")


async def test_a_stub_accepts_anything(plane: ControlPlane, namespace: str) -> None:
    thing = STUB.new("a", namespace, spec={"any": {"thing": [1]}}).to_dict()
    path = f"/apis/stub.konverge.test/v2/namespaces/{namespace}/things"
    answer = await request(plane, "POST", path, thing)
    assert answer.document()["spec"] == {"any": {"thing": [1]}}
    status = await request(plane, "PUT", f"{path}/a/status", {**answer.document(), "status": {"phase": "Done"}})
    assert status.document()["status"] == {"phase": "Done"}


async def test_the_server_accepts_the_resources_of_the_guide(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "models.md"
    module = ModuleType("guide_models_on_a_server")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    written = re.sub(r"<!-- include:.*?<!-- end include -->", "", guide.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in re.findall(r"^```python\n(.*?)^```", written, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(guide), "exec"), module.__dict__)
    for definition in (crd(module.Backup), crd(module.Job, module.OldJob)):
        # In a group of its own: other tests install an operator's Backup on the same server.
        definition["spec"]["group"] = "guide.example.com"
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.guide.example.com"
        answer = await request(plane, "POST", f"{DEFINITIONS}?dryRun=All", definition)
        assert answer.status == 201, answer.text
