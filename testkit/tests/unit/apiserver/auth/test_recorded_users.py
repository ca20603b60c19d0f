"""The user of a request, as a real server determined it (see `tools/record/admission/recorder.py`): impersonation, TokenRequest,
TokenReview.
"""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from stored_objects import Stored

from konverge_testing.apiserver import auth
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.requests import ADMIN, ANONYMOUS, Call, User
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

RECORDED: Data = json.loads(Path(__file__).with_name("recorded.json").read_text())
START = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNTS = ("robot", "actor", "player")


def _account(name: str, uid: str) -> Data:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "rights", "uid": uid}}


class Desk:
    """An authenticator with its objects and clock at hand."""

    def __init__(self) -> None:
        self.now = START
        self.objects = Stored(RECORDED["world"])
        for name in ACCOUNTS:
            self.objects.put(_account(name, f"uid-{name}"))
        self.rbac = auth.Rbac(self.objects)
        self.authenticator = auth.Authenticator(
            self.objects,
            self.rbac,
            tokens={"letmein": ADMIN},
            key=b"k" * 32,
            uid=Draws(random.Random(1)).uid,
            clock=lambda: self.now,
        )

    def token(self, name: str = "robot", **spec: Any) -> str:
        answer = self.authenticator.issue_token("rights", name, {"kind": "TokenRequest", "spec": spec})
        token: str = answer["status"]["token"]
        return token

    def by(self, token: str) -> User:
        return self.authenticator.authenticate(Call.of("GET", "/api/v1/pods", authorization=f"Bearer {token}"))

    def review(self, token: str, **spec: Any) -> Data:
        body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token, **spec}}
        return self.authenticator.review_token(body)


def _outcome(action: Callable[[], Any]) -> tuple[Any, Data | None]:
    """Return the result of an action, or the status of its rejection."""
    try:
        return action(), None
    except StatusError as error:
        return None, error.body()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize(
    "case",
    RECORDED["impersonations"],
    ids=lambda case: f"{case['account']} as {' '.join(f'{name}={value}' for name, value in case['headers'])}",
)
def test_impersonation_is_allowed_or_refused_as_by_a_real_server(desk: Desk, case: Data) -> None:
    joined: dict[str, str] = {}
    for name, value in case["headers"]:
        key = name.lower()
        joined[key] = f"{joined[key]}\n{value}" if key in joined else value
    call = Call.of("GET", "/api/v1/namespaces/rights/pods", authorization=f"Bearer {desk.token(case['account'])}")
    call.headers = {**call.headers, **joined}
    if case["account"] != "robot":
        # The plane had allowed these users to impersonate before: the mode that worked is cached.
        before = Call.of("GET", call.path, authorization=call.headers["authorization"], impersonate_user="ann")
        desk.authenticator.authenticate(before)
    _, refused = _outcome(lambda: desk.rbac.require(desk.authenticator.authenticate(call), auth.attributes_of(call)))
    assert refused == case["answer"]


@pytest.mark.parametrize("case", RECORDED["tokens"]["requests"], ids=lambda case: json.dumps(case["body"]))
def test_a_token_request_is_answered_as_by_a_real_server(desk: Desk, case: Data) -> None:
    own = RECORDED["tokens"]["requests"][-1]["answer"]["metadata"]["uid"]
    desk.objects.put(_account("robot", own))
    answer, refused = _outcome(lambda: desk.authenticator.issue_token("rights", case["account"], case["body"]))
    wanted = case["answer"]
    if refused is not None or wanted["kind"] == "Status":
        assert refused == _with_uid(wanted, own)
        return
    assert answer["metadata"].keys() == wanted["metadata"].keys()
    assert answer["spec"] == wanted["spec"]
    assert answer["status"].keys() == wanted["status"].keys()
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T00:15:00Z"


def _with_uid(answer: Data, uid: str) -> Data:
    before, _, _ = answer["message"].partition("the UID of the service account (")
    if before == answer["message"]:
        return answer
    return {**answer, "message": f"{before}the UID of the service account ({uid})"}


def test_a_token_that_this_server_issued_is_the_account(desk: Desk) -> None:
    user = desk.by(desk.token())
    wanted = RECORDED["tokens"]["self"]["status"]["userInfo"]
    assert (user.name, list(user.groups)) == (wanted["username"], wanted["groups"])
    assert user.uid == "uid-robot"
    assert list(user.extra) == list(wanted["extra"])


@pytest.mark.parametrize("name", ["valid", "wrong", "audience", "tampered", "deleted", "made anew", "empty"])
def test_a_token_review_says_what_a_real_server_says(desk: Desk, name: str) -> None:
    token = {"wrong": "abc", "empty": ""}.get(name) or desk.token()
    if name == "empty":
        token = ""
    if name == "tampered":
        token = token[:-3]
    if name in ("deleted", "made anew"):
        desk.objects.remove(("", "serviceaccounts"), "rights", "robot")
    if name == "made anew":
        desk.objects.put(_account("robot", "uid-2"))
    wanted = RECORDED["tokens"]["reviews"][name]["answer"]
    spec = {"audiences": ["other"]} if name == "audience" else {}
    answer, refused = _outcome(lambda: desk.review(token, **spec))
    if refused is not None or wanted["kind"] == "Status":
        assert refused == wanted
        return
    assert _masked(answer["status"]) == _masked(wanted["status"])


def _masked(status: Data) -> Data:
    if "error" in status:
        # Uids differ from run to run, and so does the text around them.
        words = status["error"]
        return {**status, "error": words.partition("service account UID (")[0] if "UID (" in words else words}
    user = {**status["user"], "uid": "", "extra": sorted(status["user"]["extra"])}
    return {**status, "user": user}


@pytest.mark.parametrize("name", ["wrong", "nobody", "basic"])
def test_a_call_without_a_good_token_is_refused_or_anonymous(desk: Desk, name: str) -> None:
    call = Call.of("GET", "/api/v1/pods")
    call.headers = {"wrong": {"authorization": "Bearer abc"}, "nobody": {}, "basic": {"authorization": "Basic YTpi"}}[
        name
    ]
    with pytest.raises(StatusError) as caught:
        desk.rbac.require(desk.authenticator.authenticate(call), auth.attributes_of(call))
    assert caught.value.body() == RECORDED["tokens"]["calls"][name]


def test_a_static_token_is_its_user(desk: Desk) -> None:
    assert desk.by("letmein") is ADMIN


def test_a_user_of_the_transport_needs_no_token(desk: Desk) -> None:
    call = Call.of("GET", "/api/v1/pods")
    call.user = User("ann")
    assert desk.authenticator.authenticate(call).name == "ann"
    call.user = None
    assert desk.authenticator.authenticate(call) is ANONYMOUS


def test_a_token_that_has_expired_is_refused(desk: Desk) -> None:
    token = desk.token(expirationSeconds=600)
    desk.now = START + timedelta(seconds=601)
    assert desk.by(token).name.endswith(":robot"), "a minute of leeway"
    desk.now = START + timedelta(seconds=661)
    with pytest.raises(StatusError) as caught:
        desk.by(token)
    assert caught.value.code == 401


def test_a_token_is_invalid_once_its_bound_pod_is_gone(desk: Desk) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "rights", "uid": "pod-1"}}
    desk.objects.put({**pod, "spec": {"serviceAccountName": "robot"}})
    token = desk.token(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert desk.by(token).extra["authentication.kubernetes.io/pod-name"] == ("p",)
    desk.objects.remove(("", "pods"), "rights", "p")
    with pytest.raises(StatusError):
        desk.by(token)


def test_a_token_of_another_server_is_refused(desk: Desk) -> None:
    other = auth.Authenticator(
        desk.objects, desk.rbac, tokens={}, key=b"x" * 32, uid=Draws(random.Random(1)).uid, clock=lambda: START
    )
    token = other.issue_token("rights", "robot", {"kind": "TokenRequest"})["status"]["token"]
    with pytest.raises(StatusError):
        desk.by(token)


def test_a_self_review_shows_the_user(desk: Desk) -> None:
    user = User("ann", ("a", "b"), extra={"k": ("v",)})
    answer = desk.authenticator.review_self(
        user, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    )
    assert answer["status"] == {"userInfo": {"username": "ann", "groups": ["a", "b"], "extra": {"k": ["v"]}}}
    assert answer.keys() == RECORDED["tokens"]["self"].keys()


def test_headers_that_came_twice_name_several_groups(desk: Desk) -> None:
    call = Call.of(
        "GET", "/api/v1/pods", authorization="Bearer letmein", impersonate_user="ann", impersonate_group="a,b"
    )
    assert desk.authenticator.authenticate(call).groups == ("a", "b", "system:authenticated")


def test_an_account_or_node_that_is_impersonated_comes_with_its_groups(desk: Desk) -> None:
    def groups(name: str) -> tuple[str, ...]:
        call = Call.of("GET", "/api/v1/pods", authorization="Bearer letmein", impersonate_user=name)
        return desk.authenticator.authenticate(call).groups

    accounts = ("system:serviceaccounts", "system:serviceaccounts:n")
    assert groups("system:serviceaccount:n:a") == (*accounts, "system:authenticated")
    assert groups("system:node:n1") == ("system:nodes", "system:authenticated")
    assert groups("system:anonymous") == ("system:unauthenticated",)
