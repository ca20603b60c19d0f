"""The frame of a table, ages, and the paths of printer columns."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.tables import columns, row, table
from konverge_testing.apiserver.tables.durations import human, since
from konverge_testing.apiserver.tables.jsonpath import find

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KINDS = {resource.qualified: resource for resource in builtin({})}
SPACES = KINDS["namespaces"]
SPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "a", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"phase": "Active"},
}


def test_a_list_carries_version_token_and_remaining_count() -> None:
    made = table(SPACES, SPACES.storage, [SPACE], list_version="9", continue_="t", remaining=3, now=NOW)
    assert made["metadata"] == {"resourceVersion": "9", "continue": "t", "remainingItemCount": 3}
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["rows"][0]["cells"] == ["a", "Active", "24h"]
    bare = table(SPACES, SPACES.storage, [], now=NOW)
    assert (bare["metadata"], bare["rows"], len(bare["columnDefinitions"])) == ({}, [], 3)


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": SPACE["metadata"]}),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": SPACE["metadata"]}),
        ("Object", SPACE),
        ("None", None),
    ],
)
def test_a_row_includes_what_was_asked_for(include: str, expected: Any) -> None:
    assert table(SPACES, SPACES.storage, [SPACE], include=include, now=NOW)["rows"][0]["object"] == expected


def test_another_word_for_what_to_include_is_refused() -> None:
    with pytest.raises(StatusError) as refused:
        table(SPACES, SPACES.storage, [], include="Foo", now=NOW)
    why = "includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty"
    assert (refused.value.code, refused.value.message) == (400, f"Unable to convert to Table as requested: {why}")


def test_only_the_first_line_of_a_watch_has_columns() -> None:
    first = row(SPACES, SPACES.storage, SPACE, first=True, now=NOW)
    later = row(SPACES, SPACES.storage, SPACE, now=NOW)
    assert [each["name"] for each in first["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert later["columnDefinitions"] is None
    assert first["metadata"] == later["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize("name", KINDS)
def test_a_bookmark_has_a_row_in_every_kind(name: str) -> None:
    resource = KINDS[name]
    bookmark = {"kind": resource.kind, "apiVersion": "x", "metadata": {"resourceVersion": "5"}}
    [made] = row(resource, resource.storage, bookmark, now=NOW)["rows"]
    assert len(made["cells"]) >= len(columns(resource, resource.storage))


def test_a_definition_without_columns_shows_its_age() -> None:
    version = Version("v1", Node({}))
    things = Resource(group="x.example.com", plural="things", kind="Thing", versions=(version,), custom=True)
    made = table(things, version, [SPACE], now=NOW)
    assert [(each["name"], each["type"]) for each in made["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]
    assert made["rows"][0]["cells"] == ["a", "24h"]


def test_a_kind_without_columns_shows_when_it_was_created() -> None:
    roles = KINDS["roles.rbac.authorization.k8s.io"]
    made = table(roles, roles.storage, [SPACE], now=NOW)
    assert [(each["name"], each["type"]) for each in made["columnDefinitions"]] == [
        ("Name", "string"),
        ("Created At", "date"),
    ]
    assert made["rows"][0]["cells"] == ["a", "2026-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        ({"seconds": -3}, "<invalid>"),
        ({"seconds": -1}, "0s"),
        ({"seconds": 0.9}, "0s"),
        ({"seconds": 119}, "119s"),
        ({"seconds": 120}, "2m"),
        ({"minutes": 9, "seconds": 59}, "9m59s"),
        ({"minutes": 10, "seconds": 1}, "10m"),
        ({"minutes": 179}, "179m"),
        ({"hours": 3}, "3h"),
        ({"hours": 7, "minutes": 59}, "7h59m"),
        ({"hours": 8, "minutes": 59}, "8h"),
        ({"hours": 47}, "47h"),
        ({"hours": 48}, "2d"),
        ({"hours": 49}, "2d1h"),
        ({"days": 7, "hours": 23}, "7d23h"),
        ({"days": 8, "hours": 23}, "8d"),
        ({"days": 729}, "729d"),
        ({"days": 730}, "2y"),
        ({"days": 731}, "2y1d"),
        ({"days": 8 * 365 + 5}, "8y"),
    ],
)
def test_an_age_has_two_units_at_most(duration: dict[str, float], text: str) -> None:
    assert human(timedelta(**duration).total_seconds()) == text


def test_an_unknown_age_is_shown_as_unknown() -> None:
    assert [since(stamp, NOW) for stamp in (None, "", "never", 5, "2026-01-01T00:00:00")] == ["<unknown>"] * 5
    assert since("2026-01-01T23:59:00.123456Z", NOW) == "59s"


DATA = {
    "a": {"b": [{"n": "x", "v": 1}, {"n": "y", "v": 2, "deep": {"n": "z"}}, {"n": "w", "v": 2}]},
    "dotted.key/x": 1,
    "flags": [{"on": True, "n": "t"}, {"on": False, "n": "f"}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b[0].n", ["x"]),
        ("{.a.b[0].n}", ["x"]),
        ("$.a.b[0].n", ["x"]),
        ("a.b[0].n", ["x"]),
        (".a.b[-1].n", ["w"]),
        (".a.b[7].n", []),
        (".a.b[1:].n", ["y", "w"]),
        (".a.b[0:3:2].n", ["x", "w"]),
        (".a.b[0,2].n", ["x", "w"]),
        (".a.b[*].n", ["x", "y", "w"]),
        (".a.*[0].n", ["x"]),
        ('.a.b[?(@.n=="y")].v', [2]),
        (".a.b[?(@.n == 'y')].v", [2]),
        (".a.b[?(@.v==2)].n", ["y", "w"]),
        (".a.b[?(@.v>=2)].n", ["y", "w"]),
        (".a.b[?(@.v<2)].n", ["x"]),
        (".a.b[?(@.v!=2)].n", ["x"]),
        (".a.b[?(@.deep.n)].n", ["y"]),
        (".flags[?(@.on==true)].n", ["t"]),
        (".flags[?(@.on==false)].n", ["f"]),
        ("..deep.n", ["z"]),
        (".a..v", [1, 2, 2]),
        ("['dotted.key/x']", [1]),
        ('["dotted.key/x"]', [1]),
        (r".dotted\.key/x", [1]),
        (".a['b'][0]['n']", ["x"]),
        (".missing.path[0]", []),
        (".", [DATA]),
        (".a[", []),
        (".a.b[x]", []),
        (".a.b[?(n)]", []),
    ],
)
def test_a_path_finds_what_kubectl_would_find(path: str, found: list[Any]) -> None:
    assert find(path, DATA) == found
