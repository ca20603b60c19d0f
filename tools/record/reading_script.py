"""The writes and requests that `reading.py` plays on a real server, and `test_recorded.py` in memory.

A step is a write (a label names its version from then on), `forget` (history is lost), or a case: a request; for a watch also the seconds
that it is read and the writes in that time. In a query `{label}` is the version of a write, and an object is a continue token.
"""

from __future__ import annotations

import copy
from typing import Any, Final, TypeAlias

__all__ = ["WIDGETS", "Data", "script"]

Data: TypeAlias = dict[str, Any]

_WIDGET_FIELDS: Final = {"color": {"type": "string"}, "size": {"type": "integer"}, "on": {"type": "boolean"}}
WIDGETS: Final[Data] = {"type": "object", "properties": {"spec": {"type": "object", "properties": _WIDGET_FIELDS}}}
"""The schema of the custom kind."""

_FUTURE: Final = "99999999"


def _configmap(name: str, **labels: str) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
    }


def _widget(name: str, color: str | None, namespace: str = "default", **spec: Any) -> Data:
    spec = {**spec, **({"color": color} if color is not None else {})}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def _write(verb: str, label: str, found: Data) -> Data:
    resource = "configmaps" if found["kind"] == "ConfigMap" else "widgets"
    return {"write": verb, "label": label, "resource": resource, "object": found}


def _case(name: str, resource: str, *query: Any, **more: Any) -> Data:
    pairs = [one.split("=", 1) if isinstance(one, str) else ["continue", one] for one in query]
    return {"case": name, "resource": resource, "namespace": "default", "query": pairs, **more}


def _token(rv: Any, start: str, v: str = "meta.k8s.io/v1") -> Data:
    return {"v": v, "rv": rv, "start": start}


_BEFORE: Final = [
    _write("create", "old", _configmap("a", app="a")),
    _write("create", "oldw", _widget("z", "red")),
    _write("delete", "oldgone", _widget("z", "red")),
    {"forget": True},
    _write("update", "a1", _configmap("a", app="a", x="y")),
    _write("create", "b1", _configmap("b", app="b", x="y")),
    _write("create", "c1", _configmap("c", app="c", n="12")),
    _write("create", "d1", _configmap("d", app="d")),
    _write("create", "wa1", _widget("a", "red", size=3, on=True)),
    _write("create", "wb1", _widget("b", "blue", size=3)),
    _write("create", "wx1", _widget("a", "red", "other-space")),
    _write("create", "wc1", _widget("c", None, size=4)),
    _write("update", "wa2", _widget("a", "green", size=3, on=True)),
    _write("update", "b2", _configmap("b", app="q")),
]

_SELECTORS: Final = (
    "app=a",
    "app==a",
    "app!=a",
    "app",
    "!app",
    "! n",
    "app in (a,b)",
    "app notin (a, b)",
    "app in ()",
    "app in (,)",
    "app in (a,)",
    "n>11",
    "n>12",
    "n<13",
    "app>1",
    "x=",
    "x!=",
    "app=a,x=y",
    "in in (in)",
    "app=a,",
    "app=a,,x=y",
    ",",
    "app in (a",
    "app in a",
    "app in (a b)",
    "app in (!a)",
    "app in ((a))",
    "app in (a,b!)",
    "app in",
    "!app=a",
    "app a",
    "app=a x",
    "app=a)",
    "(app)",
    "app!a",
    "app=(a)",
    "app=!a",
    "app===a",
    "!",
    "app,!",
    "=a",
    "n>x",
    "n>",
    "n>1_0",
    "n<-5",
    "-a=b",
    "a=-b",
    "a in (-a,-b)",
    "a/b/c=d",
    "A.b/c=d",
    "/a=d",
    "a/=d",
    "%",
    "a=" + "b" * 64,
    "b" * 64,
    "é=b",
)

_FIELDS: Final = (
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.name=a,",
    ",",
    "metadata.name=a,metadata.name=b",
    "metadata.namespace=other",
    "metadata.name",
    "foo=bar",
    "=a",
    "metadata.name=a=b",
    "metadata.name = a",
    "metadata.name=a\\,b",
    "metadata.name=a\\b",
    "metadata.name=a\\",
    "metadata.name in (a)",
    "!a",
)

_CUSTOM_FIELDS: Final = (
    "spec.color=red",
    "spec.color=green,metadata.name=a",
    "spec.color=",
    "spec.color!=blue",
    "spec.size=3",
    "spec.on=true",
    "spec.on=false",
    ".spec.color=red",
    "spec.other=1",
    "metadata.uid=1",
)

_BAD_LISTS: Final = (
    ("limit=x",),
    ("limit=",),
    ("timeoutSeconds=x", "limit=y"),
    ("limit=99999999999999999999",),
    ("continue=abc",),
    ("continue=!!!",),
    ("continue=abcde",),
    (_token(1, "/b", "meta.k8s.io/v2"),),
    (_token(0, "/b"),),
    (_token("{b1}", ""),),
    (_token("{b1}", "../b"),),
    (_token(int(_FUTURE), "/b\0"),),
    (_token("{b1}", "/b\0"), "resourceVersion={b1}"),
    (_token("{b1}", "/b\0"), "resourceVersionMatch=Exact"),
    (_token("{b1}", "/b\0"), "resourceVersion={b1}", "resourceVersionMatch=Exact"),
    ("resourceVersion=abc",),
    ("resourceVersion=-1",),
    ("resourceVersion=99999999999999999999",),
    ("resourceVersion=abc", "continue=abc"),
    (f"resourceVersion={_FUTURE}",),
    (f"resourceVersion={_FUTURE}", "limit=1"),
    (f"resourceVersion={_FUTURE}", "resourceVersionMatch=Exact"),
    ("resourceVersionMatch=Exact",),
    ("resourceVersionMatch=foo",),
    ("resourceVersion=0", "resourceVersionMatch=Exact"),
    ("resourceVersion={b1}", "resourceVersionMatch=foo"),
    ("sendInitialEvents=true",),
    ("sendInitialEvents=false", "resourceVersionMatch=NotOlderThan"),
    ("fieldSelector=foo=b", "resourceVersionMatch=Exact"),
    ("fieldSelector=foo", "labelSelector=a b"),
    ("fieldSelector=foo=b", "continue=abc"),
    ("resourceVersion=3", "resourceVersionMatch=Exact"),
    ("resourceVersion={old}", "limit=1"),
    (_token("{old}", "/b\0"), "limit=1"),
)

_LISTS: Final = (
    (),
    ("limit=2",),
    ("limit=-1",),
    ("limit=0",),
    ("limit=4",),
    ("limit=9",),
    ("limit=2", "resourceVersion=0"),
    ("resourceVersion=0",),
    ("resourceVersion={b1}",),
    ("resourceVersion=0", "resourceVersionMatch=NotOlderThan", "limit=1"),
    ("resourceVersion={b1}", "resourceVersionMatch=NotOlderThan"),
    ("resourceVersion={b1}", "resourceVersionMatch=NotOlderThan", "limit=1"),
    ("resourceVersion={b1}", "resourceVersionMatch=Exact"),
    ("resourceVersion={b1}", "limit=1"),
    ("resourceVersion={c1}", "limit=1", "labelSelector=app in (b,c)"),
    (_token("{c1}", "/a\0"), "limit=1"),
    (_token("{c1}", "/a\0"),),
    (_token("{c1}", "b"),),
    (_token(-1, "a\0"), "limit=1"),
    (_token(-1, "a\0"),),
    (_token("{c1}", "/a\0"), "resourceVersion=0"),
    ("limit=1", "labelSelector=app=a"),
    ("limit=1", "labelSelector=none"),
    ("limit=2", "fieldSelector=metadata.name!=a"),
    ("limit=1", "fieldSelector=metadata.name=a"),
    ("limit=1", "fieldSelector=metadata.name=a", "labelSelector=none"),
    ("watch=0", "limit=1"),
    ("watch=0", "watch=1", "limit=1"),
    ("allowWatchBookmarks=x", "limit=1"),
)

_EVERYWHERE: Final = (
    ("limit=1",),
    (_token("{wc1}", "/default/b\0"), "limit=1"),
    (_token(-1, "default/b\0"),),
    ("fieldSelector=metadata.name=a", "limit=1"),
    ("fieldSelector=metadata.name=a,metadata.namespace=other-space", "limit=1"),
    ("fieldSelector=metadata.namespace=other-space",),
    ("limit=2", "resourceVersion={wc1}"),
)

_INITIAL: Final = ("sendInitialEvents=true", "resourceVersionMatch=NotOlderThan")
_MARKED: Final = (*_INITIAL, "allowWatchBookmarks=true")

_WATCHES: Final = (
    (),
    ("resourceVersion=0",),
    ("resourceVersion={c1}",),
    ("resourceVersion={old}",),
    ("resourceVersion=1", "allowWatchBookmarks=true"),
    (f"resourceVersion={_FUTURE}",),
    ("resourceVersion=abc",),
    ("resourceVersionMatch=Exact",),
    ("resourceVersionMatch=NotOlderThan",),
    ("resourceVersion={c1}", "resourceVersionMatch=NotOlderThan"),
    ("limit=1",),
    ("continue=abc",),
    ("resourceVersion={c1}", "continue=abc"),
    ("sendInitialEvents=true",),
    _INITIAL,
    ("sendInitialEvents=true", "resourceVersionMatch=Exact"),
    _MARKED,
    (*_MARKED, "resourceVersion=0"),
    (*_MARKED, "resourceVersion={c1}"),
    (*_MARKED, "labelSelector=none"),
    ("sendInitialEvents=false",),
    ("sendInitialEvents=false", "resourceVersionMatch=NotOlderThan"),
    ("sendInitialEvents=false", "resourceVersionMatch=NotOlderThan", "resourceVersion={c1}"),
    ("sendInitialEvents=false", "resourceVersionMatch=NotOlderThan", "resourceVersion={old}"),
    ("allowWatchBookmarks=true", "resourceVersion=0"),
    ("allowWatchBookmarks=", "timeoutSeconds=1"),
    ("resourceVersion={c1}", "timeoutSeconds=1"),
    ("timeoutSeconds=x",),
    ("labelSelector=a b",),
    ("fieldSelector=foo=bar",),
    ("labelSelector=app=a",),
    ("fieldSelector=metadata.name=b", "resourceVersion={b1}"),
)


def script() -> list[Data]:
    """Return the steps: writes and cases."""
    steps = copy.deepcopy(_BEFORE)
    steps += [_case(f"list with {' '.join(_shown(query))}", "configmaps", *query) for query in (*_LISTS, *_BAD_LISTS)]
    steps += [_case(f"label selector {text[:20]}", "configmaps", f"labelSelector={text}") for text in _SELECTORS]
    steps += [_case(f"field selector {text}", "configmaps", f"fieldSelector={text}") for text in _FIELDS]
    steps += [_case(f"custom field selector {text}", "widgets", f"fieldSelector={text}") for text in _CUSTOM_FIELDS]
    steps += [
        _case(f"custom list {limit}", "widgets", *limit.split())
        for limit in ("limit=0", "limit=1", "resourceVersion=1 limit=1")
    ]
    steps += [
        {**_case(f"list everywhere {' '.join(_shown(query))}", "widgets", *query), "namespace": ""}
        for query in _EVERYWHERE
    ]
    for resource in ("nodes", "namespaces", "secrets"):
        for text in ("foo=bar", "metadata.namespace=x"):
            steps.append({**_case(f"{resource} by {text}", resource, f"fieldSelector={text}"), "namespace": ""})
    for text in (
        "",
        "resourceVersion=0",
        "resourceVersion={old}",
        f"resourceVersion={_FUTURE}",
        "resourceVersion=abc",
        "limit=x",
    ):
        steps.append({**_case(f"get with {text}", "configmaps", *text.split()), "name": "a"})
    steps.append({**_case("get of nothing", "configmaps"), "name": "none"})
    for resource in ("configmaps", "widgets"):
        for query in _WATCHES:
            versioned = [
                one.replace("{c1}", "{wb1}").replace("{b1}", "{wa1}") if resource == "widgets" else one for one in query
            ]
            versioned = [one.replace("{old}", "{oldw}") if resource == "widgets" else one for one in versioned]
            steps.append(_case(f"watch {resource} with {' '.join(query)}", resource, "watch=1", *versioned, seconds=1))
    late = _case(
        "watch from the future that wants what is there",
        "configmaps",
        "watch=1",
        f"resourceVersion={_FUTURE}",
        *_MARKED,
    )
    steps.append({**late, "seconds": 4})
    return steps + _changing()


def _changing() -> list[Data]:
    """Watches during which something is written."""
    selected = [
        _write("update", "a2", _configmap("a", app="q")),
        _write("update", "a3", _configmap("a", app="a")),
        _write("update", "a4", _configmap("a", app="a", k="2")),
        _write("delete", "b3", _configmap("b")),
        _write("create", "b4", _configmap("b", app="b")),
    ]
    colored = [
        _write("update", "wa3", _widget("a", "red")),
        _write("update", "wa4", _widget("a", "red", size=5)),
        _write("update", "wa5", _widget("a", "blue", size=5)),
        _write("delete", "wb2", _widget("b", "blue")),
        _write("delete", "wc2", _widget("c", None)),
        _write("create", "wd1", _widget("d", "red")),
        _write("delete", "wd2", _widget("d", "red")),
    ]
    marked = [_write("update", "d2", _configmap("d", app="e")), _write("delete", "d3", _configmap("d"))]
    elsewhere = [
        _write("update", "wx2", _widget("a", "blue", "other-space")),
        _write("update", "wa6", _widget("a", "pink")),
        _write("delete", "wx3", _widget("a", "blue", "other-space")),
    ]
    return [
        _case(
            "watch a label that comes and goes",
            "configmaps",
            "watch=1",
            "labelSelector=app=a",
            "resourceVersion={b2}",
            writes=selected,
            seconds=2,
        ),
        _case(
            "watch a name from the past",
            "configmaps",
            "watch=1",
            "fieldSelector=metadata.name=b",
            "resourceVersion={a2}",
            seconds=1,
        ),
        _case(
            "watch a field that comes and goes",
            "widgets",
            "watch=1",
            "fieldSelector=spec.color=red",
            "resourceVersion={wa2}",
            writes=colored,
            seconds=2,
        ),
        _case(
            "watch a field from the past",
            "widgets",
            "watch=1",
            "fieldSelector=spec.color=red",
            "resourceVersion={wa2}",
            seconds=1,
        ),
        _case(
            "watch to the end with bookmarks",
            "configmaps",
            "watch=1",
            "allowWatchBookmarks=true",
            "timeoutSeconds=4",
            writes=marked,
            seconds=6,
        ),
        _case(
            "watch to the end without bookmarks",
            "configmaps",
            "watch=1",
            "timeoutSeconds=3",
            "resourceVersion={b4}",
            seconds=5,
        ),
        {
            **_case("watch all namespaces", "widgets", "watch=1", "resourceVersion={wd2}", writes=elsewhere, seconds=2),
            "namespace": "",
        },
        _case("watch one namespace of several", "widgets", "watch=1", "resourceVersion={wd2}", seconds=1),
    ]


def _shown(query: tuple[Any, ...]) -> list[str]:
    return [
        one if isinstance(one, str) else f"token({one['rv']} {one['start']})".replace("\0", "^") for one in query
    ] or ["nothing"]
