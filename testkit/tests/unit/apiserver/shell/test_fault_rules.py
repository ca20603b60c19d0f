"""Rules as data: their meaning, and their conversion to and from JSON."""

import json

import msgspec
import pytest

from konverge_testing.apiserver.faults import rules as kinds
from konverge_testing.apiserver.faults.rules import About, Fault, Match, Rule, about_call
from konverge_testing.apiserver.requests import Call

SECRET = "/api/v1/namespaces/web/secrets"

CALLS = [
    ("GET", f"{SECRET}/a", "get secrets web/a"),
    ("HEAD", f"{SECRET}/a", "get secrets web/a"),
    ("GET", f"{SECRET}?watch=true", "watch secrets web"),
    ("GET", f"{SECRET}?watch=0", "list secrets web"),
    ("GET", "/api/v1/secrets", "list secrets"),
    ("POST", SECRET, "create secrets web"),
    ("PUT", f"{SECRET}/a", "update secrets web/a"),
    ("DELETE", f"{SECRET}/a", "delete secrets web/a"),
    ("DELETE", SECRET, "deletecollection secrets web"),
    ("PATCH", "/apis/apps/v1/namespaces/web/deployments/x/status", "patch deployments.apps/status web/x"),
    ("GET", "/api/v1/namespaces", "list namespaces"),
    ("GET", "/api/v1/namespaces/web", "get namespaces web"),
    ("PUT", "/api/v1/namespaces/web/finalize", "update namespaces/finalize web"),
    (
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa",
        "get clusterroles.rbac.authorization.k8s.io system:a",
    ),
    ("GET", "/apis/apps/v1", ""),
    ("GET", "/version", ""),
]


@pytest.mark.parametrize(("method", "target", "words"), CALLS, ids=[f"{one[0]} {one[1]}" for one in CALLS])
def test_the_description_of_a_call_is_read_from_its_path(method: str, target: str, words: str) -> None:
    assert str(about_call(Call.of(method, target))) == words


def test_an_apply_and_its_manager_are_known_by_headers_and_parameters() -> None:
    apply = {"content_type": "application/apply-patch+yaml", "user_agent": "konverge/1.0 (linux)"}
    about = about_call(Call.of("PATCH", f"{SECRET}/a?fieldManager=shop&dryRun=All", b"{}", **apply))
    assert (about.apply, about.manager, about.dry_run, about.writes) == (True, "shop", True, False)
    about = about_call(Call.of("PATCH", f"{SECRET}/a", b"{}", **apply))
    assert (about.manager, about.writes) == ("konverge", True)


WRITE = About("patch", "apps", "deployments", "web", "shop", "status", "konverge/1.0", "shop", apply=True)

MATCHES = [
    (Match(), True),
    (Match(verbs=("patch",)), True),
    (Match(verbs=("apply",)), True),
    (Match(verbs=("write",)), True),
    (Match(verbs=("read", "create")), False),
    (Match(resources=("deployments.apps",)), True),
    (Match(resources=("deployments",)), False),
    (Match(resources=("secrets", "*.apps")), True),
    (Match(subresource="status"), True),
    (Match(subresource=""), False),
    (Match(namespace="w*", name="shop"), True),
    (Match(namespace="web", name="shop-*"), False),
    (Match(user_agent="kubectl/*"), False),
    (Match(user_agent="konverge/*", manager="shop"), True),
]


@pytest.mark.parametrize(("match", "means"), MATCHES, ids=[repr(match) for match, _ in MATCHES])
def test_a_match_means_what_its_words_say(match: Match, means: bool) -> None:
    assert match.means(WRITE) is means


FAULTS: list[Fault] = [
    kinds.Delay(seconds=1.5, moment="after"),
    kinds.Hang(),
    kinds.Refuse(status=429, reason="TooManyRequests", message="later", retry_after=3),
    kinds.Drop(moment="after", watches=True),
    kinds.Jump(by=1000),
    kinds.Forget(),
    kinds.Stale(behind=3, steps=2),
    kinds.Stale(version=7, seconds=9.0, honest=True),
    kinds.Cut(lines=2, bytes=11),
    kinds.Expire(lines=1),
    kinds.Freeze(lines=4, steps=1),
    kinds.Lines(do="duplicate", types=("DELETED",), first=2, count=1),
    kinds.Bookmarks(do="delay", seconds=30.0),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[repr(fault) for fault in FAULTS])
def test_every_rule_comes_back_from_json_as_it_was(fault: Fault) -> None:
    rule = Rule(Match(verbs=("write",), resources=("secrets",), subresource=""), fault, nth=3, count=2)
    for written in (rule.to_json(), json.dumps(rule.to_json()), json.dumps(rule.to_json()).encode()):
        found = Rule.from_json(written)
        assert (found.match, found.fault, found.nth, found.count, found.hits) == (rule.match, fault, 3, 2, [])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"match": {}, "fault": {"type": "explode"}}, "explode"),
        ({"match": {"kind": "Secret"}, "fault": {"type": "hang"}}, "kind"),
        ({"match": {}, "fault": {"type": "delay"}}, "seconds"),
        ({"match": {}, "fault": {"type": "hang"}, "often": 1}, "often"),
        ({"match": {}, "fault": {"type": "hang", "moment": "later"}}, "later"),
    ],
)
def test_unknown_words_of_a_plan_are_refused_by_name(data: dict[str, object], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words) as caught:
        Rule.from_json(data)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("nth", "count", "struck"),
    [(1, None, [1, 2, 3, 4, 5]), (3, None, [3, 4, 5]), (2, 1, [2]), (2, 2, [2, 3]), (1, 0, [])],
)
def test_a_rule_strikes_so_many_from_the_nth_on(nth: int, count: int | None, struck: list[int]) -> None:
    rule = Rule(Match(), kinds.Hang(), nth=nth, count=count)
    assert [number for number in range(1, 6) if rule.strikes(number)] == struck
