"""Responses of health and readiness, without a server."""

import json
from collections.abc import Iterable

import pytest

from konverge.runtime.http.health import Check, ProbeResponse, Question, answer, checks_of, gather
from konverge.runtime.observability.readiness import ControllerReport, Obstacle, Report, State

GOOD = (Check("ping"), Check("controller/backup"))
BAD = (*GOOD, Check("controller/restore", "the cluster serves no Restore"))


@pytest.mark.parametrize(
    ("checks", "question", "status", "body"),
    [
        (GOOD, Question(), 200, "ok"),
        (GOOD, Question(verbose=True), 200, "[+]ping ok\n[+]controller/backup ok\nreadyz check passed\n"),
        (
            BAD,
            Question(),
            500,
            (
                "[+]ping ok\n[+]controller/backup ok\n"
                "[-]controller/restore failed: the cluster serves no Restore\nreadyz check failed\n"
            ),
        ),
        (BAD, Question(exclude=frozenset({"controller/restore"})), 200, "ok"),
        (
            BAD,
            Question(exclude=frozenset({"controller/restore", "nobody"}), verbose=True),
            200,
            (
                "[+]ping ok\n[+]controller/backup ok\n[+]controller/restore excluded: ok\n"
                "warn: no check is named 'nobody', so it cannot be excluded\nreadyz check passed\n"
            ),
        ),
        (BAD, Question(only="controller/backup"), 200, "ok"),
        (BAD, Question(only="controller/backup", verbose=True), 200, "[+]controller/backup ok\n"),
        (
            BAD,
            Question(only="controller/restore"),
            500,
            "[-]controller/restore failed: the cluster serves no Restore\n",
        ),
        (
            GOOD,
            Question(only="nobody"),
            404,
            "readyz has no check 'nobody'; there are: ping, controller/backup\n",
        ),
    ],
    ids=[
        "well",
        "well, verbose",
        "a failure is always listed",
        "the failure excluded",
        "an unknown exclusion warns",
        "one that is well",
        "one that is well, verbose",
        "one that failed",
        "one that is not there",
    ],
)
def test_answers_have_the_form_of_kubernetes(
    checks: tuple[Check, ...], question: Question, status: int, body: str
) -> None:
    assert answer("readyz", checks, question) == ProbeResponse(status, body)


def test_the_checks_of_an_endpoint_can_be_had_as_json() -> None:
    found = answer("readyz", BAD, Question(as_json=True, exclude=frozenset({"ping", "nobody"})))
    assert (found.status, found.content_type) == (500, "application/json")
    assert json.loads(found.body) == {
        "status": "failed",
        "checks": [
            {"name": "ping", "status": "ok", "excluded": True},
            {"name": "controller/backup", "status": "ok"},
            {"name": "controller/restore", "status": "failed", "reason": "the cluster serves no Restore"},
        ],
        "unknownExclusions": ["nobody"],
    }


def test_a_single_check_can_be_had_as_json() -> None:
    found = answer("readyz", GOOD, Question(as_json=True, only="ping"))
    assert json.loads(found.body) == {"status": "ok", "checks": [{"name": "ping", "status": "ok"}]}


def test_a_reason_of_several_lines_stays_below_its_check() -> None:
    assert Check("informer/Secret", "forbidden; add\n- apiGroups: ['']\n").line() == (
        "[-]informer/Secret failed: forbidden; add\n    - apiGroups: ['']"
    )


def test_checks_that_raise_are_one_failed_check() -> None:
    def broken() -> Iterable[Check]:
        raise RuntimeError("no manager")

    assert gather(broken) == (Check("ping"), Check("checks", "the checks themselves raised RuntimeError: no manager"))


def test_a_report_becomes_one_check_for_each_controller() -> None:
    missing = Obstacle("Restore.example.com", "NotServed", "install its CRD")
    report = Report(
        (
            ControllerReport("backup", State.RUNNING),
            ControllerReport("restore", State.SYNCING, (missing,)),
            ControllerReport("late", State.STARTING),
        )
    )
    assert checks_of(report) == (
        Check("controller/backup"),
        Check("controller/restore", "Restore.example.com: install its CRD"),
        Check("controller/late", "starting"),
    )
