"""Cases beyond the recordings: built-in kinds, freshness of defaults, definitions as resources, names, patterns."""

from typing import Any

import pytest

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.patterns import PatternError, compiled
from konverge_testing.apiserver.statuses import StatusError

STRING = {"type": "string"}


def definition(**spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version], **spec}
    found = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    schemas.crd_default(found)
    return found


def versions(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "served": True,
            "storage": name == names[0],
            "schema": {"openAPIV3Schema": {"type": "object"}},
            **more,
        }
        for name in names
    ]


def test_every_default_is_a_copy_of_its_own() -> None:
    node = Node({"type": "object", "properties": {"a": {"type": "object", "default": {"b": [1]}}}})
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    schemas.default(node, one)
    schemas.default(node, other)
    one["a"]["b"].append(2)
    assert other == {"a": {"b": [1]}}


def test_recursive_definitions_are_pruned_as_deep_as_the_object_goes() -> None:
    tree = {"type": "object", "properties": {"name": STRING, "child": {"$ref": "#/components/schemas/Tree"}}}
    node = Node({"$ref": "#/components/schemas/Tree"}, {"Tree": tree})
    data = {"name": "a", "child": {"name": "b", "x": 1, "child": {"y": [1]}}}
    assert schemas.prune(node, data) == ['unknown field "child.child.y"', 'unknown field "child.x"']
    assert data == {"name": "a", "child": {"name": "b", "child": {}}}


def test_a_free_form_field_of_a_built_in_kind_keeps_everything() -> None:
    raw = {"type": "object", "properties": {"data": {"type": "object"}}}
    data = {"data": {"anything": {"goes": 1}}, "other": 1}
    assert schemas.prune(Node({"$ref": "#/components/schemas/Raw"}, {"Raw": raw}), data) == ['unknown field "other"']
    assert data == {"data": {"anything": {"goes": 1}}}


def test_a_part_of_an_object_is_pruned_without_its_metadata() -> None:
    node = Node({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object"}}}})
    assert schemas.prune(node, {"l": [{"x": 1}], "metadata": {}}, top=False) == [
        'unknown field "l[0].x"',
        'unknown field "metadata"',
    ]


def test_wrong_metadata_is_refused_by_kind_and_version() -> None:
    with pytest.raises(StatusError) as caught:
        schemas.prune(
            Node({"type": "object"}), {"apiVersion": "a.example.com/v2", "kind": "W", "metadata": {"labels": {"a": 1}}}
        )
    assert caught.value.code == 400
    assert caught.value.message.startswith('W in version "v2" cannot be handled as a W: json: cannot unmarshal number')


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":1,"b":{"c":1}}', []),
        (b'{"a":1,"a":2}', ['duplicate field "a"']),
        (b'{"a" :1, "a":2}', ['duplicate field "a"']),
        (b'{"a":":a","b":"x\\":1"}', []),
        (b'{\n "a": [{"b": 1, "b": 2}],\n "a" : 1}', ['duplicate field "a[0].b"', 'duplicate field "a"']),
    ],
)
def test_fields_given_twice_are_found_however_the_body_is_written(body: bytes, found: list[str]) -> None:
    assert schemas.decode(body, strict=True).duplicates == found


def test_fields_given_twice_are_looked_for_only_when_asked() -> None:
    assert schemas.decode(b'{"a":1,"a":2}').duplicates == []


def test_a_built_in_kind_may_leave_its_kind_out() -> None:
    assert schemas.decode(b'{"metadata":{}}').data == {"metadata": {}}
    with pytest.raises(StatusError, match="Object 'Kind' is missing"):
        schemas.decode(b'{"metadata":{}}', kind="V", custom=True)


@pytest.mark.parametrize(
    ("finalizers", "deleted", "wrong"),
    [
        (["x.example.com/a"], True, []),
        (["x.example.com/a", "x.example.com/b"], True, ["metadata.finalizers"]),
        (["b/b"], False, []),
    ],
)
def test_a_finalizer_cannot_come_once_deletion_began(finalizers: list[str], deleted: bool, wrong: list[str]) -> None:
    old: dict[str, Any] = {"name": "a", "resourceVersion": "1", "finalizers": ["x.example.com/a"]}
    if deleted:
        old["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    new = {"metadata": {**old, "finalizers": finalizers}}
    errors = schemas.validate_metadata_update(new, {"metadata": old})
    assert [error.field for error in errors] == wrong
    if wrong:
        words = 'no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.example.com/b"}'
        assert errors[0].message == f"Forbidden: {words}"


def test_the_identity_of_an_object_is_immutable() -> None:
    old = {"metadata": {"name": "a", "uid": "u", "generation": 2, "creationTimestamp": "2030-01-01T00:00:00Z"}}
    new = {"metadata": {"name": "b", "uid": "v", "generation": 1}}
    errors = [str(error) for error in schemas.validate_metadata_update(new, old)]
    assert errors == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        "metadata.generation: Invalid value: 1: must not be decremented",
        'metadata.name: Invalid value: "b": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
        "metadata.creationTimestamp: Invalid value: null: field is immutable",
    ]


def test_annotations_beyond_their_limit_are_too_long() -> None:
    data = {"metadata": {"name": "a", "annotations": {"x": "y" * (256 * 1024)}}}
    errors = [str(error) for error in schemas.validate_metadata(data, namespaced=False)]
    assert errors == ["metadata.annotations: Too long: may not be more than 262144 bytes"]


@pytest.mark.parametrize(
    ("rule", "name", "good"), [("label", "a.b", False), ("path", "a:b", True), ("path", "a/b", False)]
)
def test_kinds_have_rules_of_their_own_for_names(rule: str, name: str, good: bool) -> None:
    assert (not schemas.validate_metadata({"metadata": {"name": name}}, namespaced=False, name_rule=rule)) == good


def test_scale_paths_hold_replicas_that_fit() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    errors = schemas.validate_scale(scale, {"spec": {"n": -1}, "status": {"n": "x", "s": 1}})
    assert [str(error) for error in errors] == [
        ".spec.n: Invalid value: -1: should be a non-negative integer",
        ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64",
        '.status.s: Invalid value: "": .status.s accessor error: 1 is of the type int64, expected string',
    ]


def test_versions_of_a_resource_stand_in_the_order_of_preference() -> None:
    resource = schemas.crd_resource(definition(versions=versions("v1beta1", "foo", "v2", "v1", "v10")))
    assert [version.name for version in resource.versions] == ["v10", "v2", "v1", "v1beta1", "foo"]
    assert resource.storage.name == "v1beta1"
    assert (resource.custom, resource.list_kind, resource.singular) == (True, "WidgetList", "widget")


def test_a_resource_without_columns_shows_its_age() -> None:
    resource = schemas.crd_resource(definition())
    assert [(column.name, column.path) for column in resource.versions[0].columns] == [
        ("Age", ".metadata.creationTimestamp")
    ]


def test_subresources_columns_and_selectable_fields_come_from_the_definition() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    column = {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}
    extra = {"subresources": {"status": {}, "scale": scale}, "additionalPrinterColumns": [column]}
    resource = schemas.crd_resource(
        definition(versions=versions("v1", selectableFields=[{"jsonPath": ".spec.c"}], **extra))
    )
    version = resource.versions[0]
    assert (version.has_status, version.scale, version.selectable) == (True, scale, (".spec.c",))
    assert (version.columns[0].name, version.columns[0].priority) == ("N", 1)
    assert resource.subresources == {"status", "scale"}


@pytest.mark.parametrize(
    ("deprecated", "words"),
    [
        ("v1", "example.com/v1 Widget is deprecated; use example.com/v2 Widget"),
        ("v2", "example.com/v2 Widget is deprecated"),
    ],
)
def test_a_deprecated_version_names_a_better_one(deprecated: str, words: str) -> None:
    several = versions("v1", "v2")
    for version in several:
        version["deprecated"] = version["name"] == deprecated
    found = {
        version.name: version.deprecated for version in schemas.crd_resource(definition(versions=several)).versions
    }
    assert found[deprecated] == words
    assert not found["v1" if deprecated == "v2" else "v2"]


def test_free_names_of_a_definition_are_accepted() -> None:
    names, conditions = schemas.crd_names_accepted(definition(), [])
    assert names == {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


def test_a_taken_name_of_a_definition_is_not_accepted() -> None:
    other = definition(names={"plural": "gadgets", "kind": "Widget"})
    other["status"] = {
        "acceptedNames": {"plural": "gadgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    }
    names, conditions = schemas.crd_names_accepted(definition(), [other])
    assert names == {"plural": "widgets", "kind": ""}
    assert [one["status"] for one in conditions] == ["False", "False"]
    assert conditions[0]["message"] == '"WidgetList" is already in use'


def test_names_of_another_group_do_not_conflict() -> None:
    other = definition(group="other.example.com")
    other["status"] = {"acceptedNames": dict(other["spec"]["names"])}
    assert schemas.crd_names_accepted(definition(), [other])[1][0]["status"] == "True"


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a$", "a\n", False),
        ("(?m)a$", "a\nb", True),
        ("a(?i)b", "aB", True),
        ("(?i:a)b", "AB", False),
        (r"\Qa.b\E", "a.b", True),
        (r"^[[:^digit:]]+$", "ab", True),
        (r"^[^[:alpha:]\d]$", "-", True),
        (r"^\p{Lu}$", "É", True),
        (r"^[\p{L}_]+$", "é_a", True),
        (r"(?P<x>a)(?<y>b)", "ab", True),
        (r"^\x{1F600}$", "\U0001f600", True),
        ("[a&&b]", "&", True),
    ],
)
def test_patterns_mean_what_they_mean_to_the_server(pattern: str, text: str, matches: bool) -> None:
    assert bool(compiled(pattern).search(text)) == matches


def test_a_pattern_with_a_back_reference_is_refused() -> None:
    with pytest.raises(PatternError, match="invalid escape sequence"):
        compiled(r"(a)\1")
