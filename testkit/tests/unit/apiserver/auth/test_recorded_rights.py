"""Rights as a real server decided them (see `tools/record/admission/recorder.py`): the same decisions, reasons and messages."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_objects import Stored

from konverge_testing.apiserver import auth
from konverge_testing.apiserver.requests import Call, User
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

RECORDED: Data = json.loads(Path(__file__).with_name("recorded.json").read_text())


def _rbac() -> auth.Rbac:
    return auth.Rbac(Stored([*auth.bootstrap_objects(), *RECORDED["world"]]))


def _outcome(action: Callable[[], Any]) -> tuple[Any, Data | None]:
    """Return the result of an action, or the status of its rejection."""
    try:
        return action(), None
    except StatusError as error:
        return None, error.body()


@pytest.fixture(scope="module")
def rbac() -> auth.Rbac:
    return _rbac()


def _user(case: Data) -> User:
    groups = case["groups"]
    known = {"system:authenticated", "system:unauthenticated"} & set(groups)
    return User(case["user"], tuple(groups) if known else (*groups, "system:authenticated"))


def _named(case: Data) -> str:
    return f"{case['user']} {case['method']} {case['path']}"


@pytest.mark.parametrize("case", RECORDED["requests"], ids=_named)
def test_a_request_is_allowed_or_refused_as_by_a_real_server(rbac: auth.Rbac, case: Data) -> None:
    attributes = auth.attributes_of(Call.of(case["method"], case["path"]))
    _, refused = _outcome(lambda: rbac.require(_user(case), attributes))
    assert (refused is None) == case["allowed"]
    assert _worded(refused or {}) == _worded(case.get("answer") or {})


@pytest.mark.parametrize(
    "case", RECORDED["escalations"], ids=lambda case: f"{case['user']} {case['body']['metadata']['name']}"
)
def test_role_or_binding_beyond_own_rights_gets_the_recorded_error(rbac: auth.Rbac, case: Data) -> None:
    namespace = case["body"]["metadata"].get("namespace", "")
    new, user = case["body"], _user(case)
    _, refused = _outcome(lambda: auth.require_no_escalation(rbac, user, case["plural"], namespace, new, None))
    assert refused == case["answer"]


def _review(rbac: auth.Rbac, case: Data) -> Data:
    body, user = case["body"], _user(case)
    match body["kind"]:
        case "SubjectAccessReview":
            return auth.review_access(rbac, body)
        case "LocalSubjectAccessReview":
            return auth.review_local_access(rbac, body, body["metadata"]["namespace"])
        case "SelfSubjectAccessReview":
            return auth.review_own_access(rbac, user, body)
    return auth.review_own_rules(rbac, user, body)


@pytest.mark.parametrize("case", RECORDED["reviews"], ids=lambda case: json.dumps(case["body"]["spec"]))
def test_a_review_is_answered_as_by_a_real_server(rbac: auth.Rbac, case: Data) -> None:
    answer, refused = _outcome(lambda: _review(rbac, case))
    wanted = case["answer"]
    if refused is not None or wanted["kind"] == "Status":
        assert refused == wanted
        return
    assert answer["kind"] == wanted["kind"]
    assert _sorted(answer["status"]) == _sorted(wanted["status"])
    assert answer["spec"] == wanted["spec"]


def _worded(status: Data) -> Data:
    """Sort joined errors: upstream has the random order of a Go map."""
    for key in ("message", "reason", "evaluationError"):
        head, bracket, rest = str(status.get(key, "")).partition("[")
        if bracket:
            status = {**status, key: [head, *sorted(rest.removesuffix("]").split(", "))]}
    return status


def _sorted(status: Data) -> Data:
    """Sort rules: upstream has the random order of a Go map."""
    lists = {key: sorted(value, key=json.dumps) for key, value in status.items() if isinstance(value, list)}
    return _worded({**status, **lists})


def test_at_least_sixty_answers_were_recorded() -> None:
    assert sum(len(RECORDED[key]) for key in ("requests", "escalations", "reviews", "impersonations")) >= 60


@pytest.mark.parametrize("name", ["admin", "edit", "view"])
def test_the_bootstrap_roles_aggregate_as_by_the_controller(name: str) -> None:
    roles = {each["metadata"]["name"]: each for each in auth.bootstrap_objects() if each["kind"] == "ClusterRole"}
    wanted = RECORDED["aggregated"][name]
    assert sorted(map(json.dumps, roles[name]["rules"])) == sorted(map(json.dumps, wanted))
