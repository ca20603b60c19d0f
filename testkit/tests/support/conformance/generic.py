"""The conformance cases that every kind has: each verb with the features that mean the same everywhere. Pure; generated from `KINDS`.

A case covers a verb of a kind with a group of features; its cells name the features.
"""

from collections.abc import Iterator
from typing import Any, Final

from conformance.cases import KINDS, Case, Step
from conformance.lines import Data, KindLines, merged

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NOBODY: Final = "nobody@example.com"
_HELD: Final = "example.com/held"
_NO_UID: Final = "00000000-0000-4000-8000-000000000000"


def generic_cases() -> Iterator[Case]:
    """Return the cases of all kinds."""
    for kind in KINDS.values():
        if not kind.generic:
            continue
        one = KindLines(kind)
        for make in (_creates, _reads, _lists, _watches, _updates, _patches, _applies, _deletes, _statuses, _scales):
            yield from make(one)


def _creates(k: KindLines) -> Iterator[Case]:
    yield k.case(
        "create",
        "made, made again, and made dry",
        "plain owners exists dryrun generated",
        k.post("a", "?fieldManager=me"),
        k.post("a", status=(409,)),
        k.post("b", "?dryRun=All"),
        Step(f"GET {k.at('b')}", status=(404,)),
        k.post("a", "?dryRun=All", status=(409,)),
        Step(f"POST {k.alias}", k.body(generateName="gen-")),
    )
    unknown = {**k.body("u"), "unknown": 1}
    yield k.case(
        "create",
        "refused",
        "validation wrong rights",
        Step(f"POST {k.alias}?fieldValidation=Strict", unknown, any=True),
        Step(f"POST {k.alias}?fieldValidation=Warn&dryRun=All", unknown, any=True),
        Step(f"POST {k.alias}?fieldValidation=Ignore&dryRun=All", unknown, any=True),
        *_misnamed(k),
        k.post("v", metadata={"resourceVersion": "5"}, any=True),
        Step(f"POST {k.alias}", {**k.body("w"), "kind": "Other"}, status=(422,) if k.kind.custom else (400,)),
        Step(f"POST {k.alias}", {**k.body("w"), "apiVersion": "other.example.com/v1"}, status=(400,)),
        Step(f"POST {k.alias}", "{", status=(400,)),
        Step(f"POST {k.alias}", k.body("x", namespace="elsewhere"), any=True),
        Step(f"POST {k.alias}?dryRun=Some", k.body("x"), status=(422,)),
        Step(f"POST {k.alias}", "x", type="text/plain", status=(415,)),
        k.post("x", user=NOBODY, status=(403,)),
    )
    yield k.case(
        "create",
        "answered as metadata and as a table",
        "metadata table",
        k.post("t", accept=TABLE),
        k.post("m", accept=METADATA),
        k.post("n", accept="text/html", status=(406,)),
    )


def _misnamed(k: KindLines) -> list[Step]:
    if k.alias == "svc":  # kube-apiserver first allocates an IP address for these, and reports an error
        return []
    return [
        Step(f"POST {k.alias}", k.body(), status=() if k.alias == "limits" else (422,)),
        Step(f"POST {k.alias}", k.body(name=" bad/Name "), status=(422,)),
    ]


def _reads(k: KindLines) -> Iterator[Case]:
    yield k.case(
        "get",
        "in every form",
        "plain absent metadata table versions rights",
        k.post("a"),
        Step(f"GET {k.at('a')}"),
        Step(f"GET {k.at('none')}", status=(404,)),
        Step(f"GET {k.at('a')}", accept=METADATA),
        Step(f"GET {k.at('a')}", accept=TABLE),
        Step(f"GET {k.at('a')}?includeObject=Object", accept=TABLE),
        Step(f"GET {k.at('a')}?resourceVersion=0"),
        Step(f"GET {k.at('a')}?resourceVersion=$(a.rv)"),
        Step(f"GET {k.at('a')}", user=NOBODY, status=(403,)),
        Step(f"GET {k.at('none')}", user=NOBODY, status=(403,)),
    )


def _lists(k: KindLines) -> Iterator[Case]:
    yield k.case(
        "list",
        "in every form",
        "plain labels fields pages metadata table versions rights",
        k.post("a", metadata={"labels": {"case": "$ns", "x": "1"}}),
        k.post("b", metadata={"labels": {"case": "$ns", "x": "2"}}),
        Step(f"GET {k.alias}?{k.all}"),
        Step(f"GET {k.alias}?{k.all},x in (2,3)"),
        Step(f"GET {k.alias}?{k.all}&fieldSelector=metadata.name={k.prefix}b"),
        Step(f"GET {k.alias}?{k.all}&fieldSelector=unknown=b", status=(400,)),
        Step(f"GET {k.alias}?{k.all}&limit=1", save="page"),
        *(
            [] if k.alias == "sa" else [Step(f"GET {k.alias}?{k.all}&limit=1&continue=$(page.metadata.continue)")]
        ),  # `default` may follow
        Step(f"GET {k.alias}?{k.all}", accept=METADATA_LIST),
        Step(f"GET {k.alias}?{k.all}", accept=TABLE),
        Step(f"GET {k.alias}?{k.all}&resourceVersion=$(a.rv)&resourceVersionMatch=Exact"),
        Step(f"GET {k.alias}?{k.all}&resourceVersion=$(b.rv)&resourceVersionMatch=NotOlderThan"),
        Step(f"GET {k.alias}", user=NOBODY, status=(403,)),
    )


def _watches(k: KindLines) -> Iterator[Case]:
    changes = (
        k.post("a", metadata={"labels": {"case": "$ns", "x": "1"}}),
        Step(f"MERGE {k.at('a')}", dict(k.kind.change)),
        Step(f"MERGE {k.at('a')}", {"metadata": {"labels": {"x": "2"}}}),
        Step(f"DELETE {k.at('a')}?propagationPolicy=Background"),
        k.post("end", metadata={"labels": {"case": "$ns", "x": "1"}}),
    )
    end = f"{k.prefix}end"
    yield k.case(
        "watch",
        "whole, selected, and as metadata",
        "plain labels metadata versions",
        Step(f"GET {k.alias}?{k.all}", save="list"),
        Step(f"WATCH {k.alias}?{k.all}&resourceVersion=$(list.rv)", during=changes, to=end),
        Step(f"WATCH {k.alias}?{k.all},x=1&resourceVersion=$(list.rv)", to=end),
        Step(f"WATCH {k.alias}?{k.all}&resourceVersion=$(list.rv)", accept=METADATA, to=end),
    )
    yield k.case(
        "watch",
        "with what is there first, and refused",
        "initial table fields rights",
        k.post("a"),
        k.post("b"),
        Step(
            f"WATCH {k.alias}?{k.all}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            to="BOOKMARK",
        ),
        Step(f"WATCH {k.alias}?{k.all}&resourceVersion=0", lines=2),
        Step(f"WATCH {k.alias}?{k.all}&resourceVersion=0", accept=TABLE, lines=2),
        Step(f"WATCH {k.alias}?{k.all}&fieldSelector=metadata.name={k.prefix}b&resourceVersion=0", lines=1),
        Step(f"WATCH {k.alias}?sendInitialEvents=true", status=(422,)),
        Step(f"WATCH {k.alias}", user=NOBODY, status=(403,)),
    )


def _updates(k: KindLines) -> Iterator[Case]:
    fixed = k.alias in ("job", "po")  # a PUT without the fields that the server filled in is rejected
    yield k.case(
        "update",
        "changed, unchanged, and dry",
        "plain owners unchanged dryrun metadata table",
        k.post("a", "?fieldManager=one", save="first"),
        Step(f"PUT {k.at('a')}?dryRun=All", k.body("a", change=True, resourceVersion="$(a.rv)"), any=fixed),
        Step(f"PUT {k.at('a')}?fieldManager=two", k.body("a", change=True, resourceVersion="$(first.rv)"), any=fixed),
        Step(f"PUT {k.at('a')}?fieldManager=two", k.body("a", change=True, resourceVersion="$(a.rv)"), any=fixed),
        Step(f"PUT {k.at('a')}", k.body("a", change=True, resourceVersion="$(a.rv)"), accept=METADATA, any=fixed),
        Step(f"PUT {k.at('a')}", k.body("a", change=True, resourceVersion="$(a.rv)"), accept=TABLE, any=fixed),
        Step(f"GET {k.at('a')}"),
    )
    fresh = k.body("a", resourceVersion="$(a.rv)")
    yield k.case(
        "update",
        "refused",
        "stale absent wrong uid validation rights",
        k.post("a", save="first"),
        Step(f"MERGE {k.at('a')}", {"metadata": {"annotations": {"b": "c"}}}),
        Step(f"PUT {k.at('a')}", k.body("a", resourceVersion="$(first.rv)"), status=(409,)),
        Step(f"PUT {k.at('a')}", k.body("a"), any=True),
        Step(f"PUT {k.at('none')}", k.body("none"), any=True),
        Step(f"PUT {k.at('none')}", k.body("none", resourceVersion="5"), any=True),
        Step(f"PUT {k.at('a')}", k.body("other", resourceVersion="$(a.rv)"), status=(400,)),
        Step(f"PUT {k.at('a')}", merged(fresh, {"metadata": {"uid": _NO_UID}}), any=True),
        Step(f"PUT {k.at('a')}", merged(fresh, {"metadata": {"namespace": "elsewhere"}}), any=True),
        Step(f"PUT {k.at('a')}?fieldValidation=Strict", {**fresh, "unknown": 1}, any=True),
        Step(f"PUT {k.at('a')}", {**fresh, "kind": "Other"}, status=(422,) if k.kind.custom else (400,)),
        Step(f"PUT {k.alias}", fresh, status=(400,) if k.kind.custom else (405,)),
        Step(f"PUT {k.at('a')}", fresh, user=NOBODY, status=(403,)),
    )


def _patches(k: KindLines) -> Iterator[Case]:
    labels = "/metadata/labels"
    yield k.case(
        "json",
        "done and refused",
        "plain owners unchanged dryrun absent wrong rights",
        k.post("a"),
        Step(f"JSON {k.at('a')}?dryRun=All", [{"op": "remove", "path": labels}]),
        Step(f"JSON {k.at('a')}?fieldManager=two", [{"op": "add", "path": f"{labels}/l", "value": "x"}]),
        Step(f"JSON {k.at('a')}", [{"op": "test", "path": f"{labels}/l", "value": "x"}]),
        Step(f"JSON {k.at('a')}", [{"op": "test", "path": f"{labels}/l", "value": "y"}], status=(422,)),
        Step(f"JSON {k.at('a')}", [{"op": "remove", "path": "/metadata/annotations/none"}], status=(422,)),
        Step(f"JSON {k.at('a')}", [{"op": "replace", "path": "/metadata/name", "value": "b"}], any=True),
        Step(f"JSON {k.at('a')}", {"op": "add"}, status=(400,)),
        Step(f"JSON {k.at('none')}", [{"op": "remove", "path": labels}], status=(404,)),
        Step(f"JSON {k.at('a')}", [{"op": "remove", "path": labels}], user=NOBODY, status=(403,)),
    )
    change = dict(k.kind.change)
    yield k.case(
        "merge",
        "done and refused",
        "plain owners unchanged dryrun absent stale validation wrong rights",
        k.post("a", save="first"),
        Step(f"MERGE {k.at('a')}?dryRun=All", change),
        Step(f"MERGE {k.at('a')}?fieldManager=two", change),
        Step(f"MERGE {k.at('a')}?fieldManager=two", change),
        Step(f"MERGE {k.at('a')}", {"metadata": {"labels": None, "resourceVersion": "$(first.rv)"}}, status=(409,)),
        Step(f"MERGE {k.at('a')}", {"metadata": {"labels": {"m": "n", "case": None}, "resourceVersion": "$(a.rv)"}}),
        Step(f"MERGE {k.at('a')}", {"metadata": {"labels": None}}),
        Step(f"MERGE {k.at('a')}?fieldValidation=Strict", {"unknown": 1}, any=True),
        Step(f"MERGE {k.at('a')}", {"unknown": 1}),
        Step(f"MERGE {k.at('a')}", {"metadata": {"labels": {"a b": "c"}}}, status=(422,)),
        Step(f"MERGE {k.at('a')}", {"metadata": {"uid": _NO_UID}}, any=True),
        Step(f"MERGE {k.at('a')}", {"kind": "Other"}, any=True),
        Step(f"MERGE {k.at('none')}", change, status=(404,)),
        Step(f"MERGE {k.at('a')}?force=true", change, status=(422,)),
        Step(f"MERGE {k.at('a')}", change, user=NOBODY, status=(403,)),
    )
    is_ = (415,) if k.kind.custom else ()
    yield k.case(
        "strategic",
        "done and refused",
        "plain owners unchanged dryrun absent",
        k.post("a", metadata={"finalizers": ["example.com/one"]}),
        Step(f"STRATEGIC {k.at('a')}?dryRun=All", change, status=is_),
        Step(f"STRATEGIC {k.at('a')}?fieldManager=two", change, status=is_),
        Step(f"STRATEGIC {k.at('a')}?fieldManager=two", change, status=is_),
        Step(f"STRATEGIC {k.at('a')}", {"metadata": {"finalizers": ["example.com/two"]}}, status=is_),
        Step(
            f"STRATEGIC {k.at('a')}",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one", "example.com/two"]}},
            status=is_,
        ),
        Step(f"STRATEGIC {k.at('a')}", {"metadata": {"labels": {"$patch": "replace", "z": "y"}}}, status=is_),
        Step(f"STRATEGIC {k.at('none')}", change, status=is_ or (404,)),
    )


def _applies(k: KindLines) -> Iterator[Case]:
    def apply(name: str, query: str, change: bool = False, labels: Data | None = None, **options: Any) -> Step:
        body = k.body(change=change, labels={"case": "$ns", **(labels or {})})
        return Step(f"APPLY {k.at(name)}?{query}", body, **options)

    yield (
        k.case(
            "apply",
            "created, taken over, and given up",
            "plain owners conflict force removal dryrun unchanged",
            apply("a", "fieldManager=one&dryRun=All"),
            apply("a", "fieldManager=one", labels={"mine": "1"}),
            apply("a", "fieldManager=one", labels={"mine": "1"}),
            apply("a", "fieldManager=two", labels={"mine": "2"}, status=(409,)),
            apply("a", "fieldManager=two", labels={"yours": "2"}, any=True),
            apply("a", "fieldManager=two&dryRun=All&force=true", labels={"mine": "2"}),
            apply("a", "fieldManager=two&force=true", change=True, labels={"mine": "2"}, any=True),
            apply("a", "fieldManager=one", any=True),
            apply("a", "fieldManager=one&force=true"),
            Step(f"APPLY {k.at('a')}?fieldManager=two", {}, any=True),
            Step(f"GET {k.at('a')}"),
        )
        if k.alias not in ("job", "sec")
        else _apply_some(k, apply)
    )
    yield k.case(
        "apply",
        "beside updates, and refused",
        "updates wrong validation rights metadata table",
        k.post("a", "?fieldManager=maker"),
        Step(f"MERGE {k.at('a')}?fieldManager=patcher", {"metadata": {"labels": {"p": "q"}}}),
        apply("a", "fieldManager=one", labels={"p": "r"}, status=(409,)),
        apply("a", "fieldManager=one", labels={"p": "q"}, any=True),
        apply("a", "fieldManager=one&force=true", labels={"p": "r"}),
        Step(f"MERGE {k.at('a')}?fieldManager=patcher", {"metadata": {"labels": {"p": "s"}}}),
        apply("a", "", status=(422,)),
        Step(
            f"APPLY {k.at('a')}?fieldManager=one&force=true&fieldValidation=Strict",
            {**k.body(), "unknown": 1},
            any=True,
        ),
        Step(f"APPLY {k.at('a')}?fieldManager=one&force=true", {**k.body(), "unknown": 1}, any=True),
        Step(f"APPLY {k.at('a')}?fieldManager=one", {**k.body(), "kind": "Other"}, any=True),
        Step(
            f"APPLY {k.at('a')}?fieldManager=one",
            merged(k.body(), {"metadata": {"managedFields": [{"manager": "x"}]}}),
            any=True,
        ),
        Step(f"APPLY {k.at('a')}?fieldManager=one", merged(k.body(), {"metadata": {"resourceVersion": "5"}}), any=True),
        Step(f"APPLY {k.at('a')}?fieldManager=one", merged(k.body(), {"metadata": {"name": "other"}}), any=True),
        Step(f"APPLY {k.at('a')}?fieldManager=one", "a: [", any=True),
        apply("a", "fieldManager=one&force=true", accept=METADATA),
        apply("a", "fieldManager=one&force=true", accept=TABLE),
        apply("a", "fieldManager=one", user=NOBODY, status=(403,)),
    )


def _apply_some(k: KindLines, apply: Any) -> Case:
    """The same for kinds whose example is immutable after its creation, or whose fields move: the writers conflict over labels only."""
    return k.case(
        "apply",
        "created, taken over, and given up",
        "plain owners conflict force removal dryrun unchanged",
        apply("a", "fieldManager=one&dryRun=All"),
        apply("a", "fieldManager=one", labels={"mine": "1"}),
        apply("a", "fieldManager=one", labels={"mine": "1"}),
        apply("a", "fieldManager=two", labels={"mine": "2"}, status=(409,)),
        apply("a", "fieldManager=two&force=true", labels={"mine": "2"}),
        apply("a", "fieldManager=one", any=True),
        Step(f"APPLY {k.at('a')}?fieldManager=two", {}),
        Step(f"GET {k.at('a')}"),
    )


def _deletes(k: KindLines) -> Iterator[Case]:
    def options(**more: Any) -> Data:
        return {"kind": "DeleteOptions", "apiVersion": "v1", **more}

    background = {"propagationPolicy": "Background"} if k.alias == "job" else {}  # jobs orphan their pods by default
    policy = "?propagationPolicy=Background" if background else ""
    yield k.case(
        "delete",
        "refused, dry, and done",
        "plain absent uid stale dryrun wrong rights",
        k.post("a"),
        Step(f"DELETE {k.at('none')}", status=(404,)),
        Step(f"DELETE {k.at('a')}", options(preconditions={"uid": _NO_UID}), status=(409,)),
        Step(f"DELETE {k.at('a')}", options(preconditions={"resourceVersion": "1"}), status=(409,)),
        Step(f"DELETE {k.at('a')}?dryRun=All"),
        Step(f"DELETE {k.at('a')}", options(propagationPolicy="Sideways"), status=(422,)),
        Step(f"DELETE {k.at('a')}", user=NOBODY, status=(403,)),
        Step(
            f"DELETE {k.at('a')}",
            options(preconditions={"uid": "$(a.uid)", "resourceVersion": "$(a.rv)"}, **background),
        ),
        Step(f"GET {k.at('a')}", status=(404,)),
        Step(f"DELETE {k.at('a')}", status=(404,)),
    )
    yield k.case(
        "delete",
        "held by a finalizer, and with every policy",
        "finalizer propagation metadata",
        k.post("h", metadata={"finalizers": [_HELD]}),
        Step(f"DELETE {k.at('h')}{policy}"),
        Step(f"DELETE {k.at('h')}{policy}"),
        Step(f"MERGE {k.at('h')}", {"metadata": {"finalizers": [_HELD, "example.com/more"]}}, status=(422,)),
        Step(f"MERGE {k.at('h')}", {"metadata": {"labels": {"l": "m"}}}),
        Step(f"MERGE {k.at('h')}", {"metadata": {"finalizers": None}}),
        Step(f"GET {k.at('h')}", status=(404,)),
        k.post("f"),
        Step(f"DELETE {k.at('f')}?propagationPolicy=Foreground&dryRun=All"),
        Step(f"DELETE {k.at('f')}?propagationPolicy=Orphan&dryRun=All"),
        Step(f"DELETE {k.at('f')}?propagationPolicy=Background", accept=METADATA),
    )
    labels = {"case": "$ns", "x": "1"}
    yield k.case(
        "deletecollection",
        "dry, selected, and all",
        "plain labels fields dryrun finalizer rights",
        k.post("a", metadata={"labels": labels}),
        k.post("b"),
        k.post("c", metadata={"finalizers": [_HELD]}),
        k.post("d"),
        Step(f"DELETE {k.alias}?{k.all}&dryRun=All"),
        Step(f"DELETE {k.alias}?{k.all},x=1{policy.replace('?', '&')}"),
        Step(f"DELETE {k.alias}?{k.all}&fieldSelector=metadata.name={k.prefix}d{policy.replace('?', '&')}"),
        Step(f"GET {k.alias}?{k.all}", accept=METADATA_LIST),
        Step(f"DELETE {k.alias}?{k.all}{policy.replace('?', '&')}"),
        Step(f"GET {k.alias}?{k.all}"),
        Step(f"MERGE {k.at('c')}", {"metadata": {"finalizers": None}}),
        Step(f"GET {k.alias}?{k.all}"),
        Step(f"DELETE {k.alias}?{k.all}", user=NOBODY, status=(403,)),
    )


def _statuses(k: KindLines) -> Iterator[Case]:
    status = dict(k.kind.status)
    if not status or k.alias == "plain":
        return
    made = k.post("a", "?fieldManager=maker")
    yield k.case(
        "update",
        "status",
        "status",
        Step(made.line, {**made.body, "status": status}),
        Step(
            f"PUT {k.at('a')}/status?fieldManager=st",
            {
                **k.body(change=True),
                "metadata": {"labels": {"no": "no"}, "resourceVersion": "$(a.rv)"},
                "status": status,
            },
        ),
        Step(
            f"PUT {k.at('a')}/status?fieldManager=st",
            {**k.body(), "metadata": {"resourceVersion": "1"}, "status": status},
            status=(409,),
        ),
        *(
            []
            if k.alias == "svc"
            else [Step(f"PUT {k.at('none')}/status", {**k.body(), "status": status}, status=(404,))]
        ),
        Step(f"GET {k.at('a')}/status"),
        Step(f"GET {k.at('a')}"),
    )
    yield k.case(
        "merge",
        "status",
        "status",
        k.post("a"),
        Step(
            f"MERGE {k.at('a')}/status?fieldManager=st", {"status": status, "metadata": {"annotations": {"an": "no"}}}
        ),
        Step(f"MERGE {k.at('a')}/status?fieldManager=st", {"status": status}),
        Step(f"MERGE {k.at('a')}?fieldManager=st", {"status": None}),
        Step(f"JSON {k.at('a')}/status?dryRun=All", [{"op": "remove", "path": "/status"}], any=True),
        Step(f"GET {k.at('a')}/status"),
        Step(f"MERGE {k.at('a')}/status", {"status": status}, user=NOBODY, status=(403,)),
    )
    yield k.case(
        "apply",
        "status",
        "status",
        k.post("a"),
        *(
            []
            if k.alias == "svc"
            else [Step(f"APPLY {k.at('none')}/status?fieldManager=st", {"status": status}, status=(404,))]
        ),
        Step(f"APPLY {k.at('a')}/status?fieldManager=st", {"status": status}),
        Step(f"APPLY {k.at('a')}/status?fieldManager=st", {"status": status}),
        Step(f"APPLY {k.at('a')}/status?fieldManager=other", {"status": status}, any=True),
        Step(f"APPLY {k.at('a')}/status?fieldManager=st", {}),
        Step(f"GET {k.at('a')}"),
    )


def _scales(k: KindLines) -> Iterator[Case]:
    if not k.kind.scale:
        return
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "$ns"}}
    yield k.case(
        "get",
        "scale",
        "scale",
        k.post("a"),
        Step(f"GET {k.at('a')}/scale"),
        Step(f"GET {k.at('none')}/scale", status=(404,)),
        Step(f"GET {k.at('a')}/scale", accept=METADATA, any=True),
    )
    yield k.case(
        "update",
        "scale",
        "scale",
        k.post("a"),
        Step(f"PUT {k.at('a')}/scale?fieldManager=sc", {**scale, "spec": {"replicas": 4}}),
        Step(f"PUT {k.at('a')}/scale?fieldManager=sc", {**scale, "spec": {"replicas": 4}}),
        Step(f"PUT {k.at('a')}/scale?dryRun=All", {**scale, "spec": {"replicas": 0}}),
        Step(f"PUT {k.at('a')}/scale", {**scale, "spec": {"replicas": -1}}, status=(422,)),
        Step(
            f"PUT {k.at('a')}/scale",
            merged(scale, {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}}),
            status=(409,),
        ),
        Step(
            f"PUT {k.at('none')}/scale",
            merged(scale, {"metadata": {"name": "none"}, "spec": {"replicas": 1}}),
            status=(404,),
        ),
        Step(f"GET {k.at('a')}"),
    )
    yield k.case(
        "merge",
        "scale",
        "scale",
        k.post("a"),
        Step(f"MERGE {k.at('a')}/scale?fieldManager=sc", {"spec": {"replicas": 4}}),
        Step(f"MERGE {k.at('a')}/scale", {"spec": {"replicas": "x"}}, any=True),
        Step(f"JSON {k.at('a')}/scale", [{"op": "replace", "path": "/spec/replicas", "value": 6}]),
        Step(f"GET {k.at('a')}"),
        Step(f"MERGE {k.at('a')}/scale", {"spec": {"replicas": 4}}, user=NOBODY, status=(403,)),
    )
