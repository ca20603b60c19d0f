"""ResourceQuota as a real server kept it (see `tools/record/admission/recorder.py`): every step's response, the used amounts after it, the
controller's sums.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from stored_objects import Stored

from konverge_testing.apiserver.admission import AdmissionCall, QuotaUpdate, charge, recalculate
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

RECORDED: Data = json.loads(Path(__file__).with_name("recorded.json").read_text())["quota"]
STEPS: list[Data] = RECORDED["steps"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _call(case: Data) -> AdmissionCall:
    path, _, query = case["path"].partition("?")
    head, _, tail = path.partition("/namespaces/")
    namespace, plural, *_ = tail.split("/")
    group = "" if head.startswith("/api/") else head.split("/")[2]
    made = case["status"] in (200, 201)
    resource = Resource(group=group, plural=plural, kind=case["body"]["kind"], versions=(Version("v1", Node({})),))
    return AdmissionCall(
        "UPDATE" if case["method"] == "PUT" else "CREATE",
        resource,
        "v1",
        namespace=namespace,
        name=case["body"]["metadata"]["name"],
        object=case["answer"] if made else case["body"],
        old=case["old"],
        dry_run="dryRun" in query,
    )


def _charged(case: Data) -> tuple[list[QuotaUpdate], Data | None]:
    try:
        return charge(_call(case), case["before"], NOW), None
    except StatusError as error:
        return [], error.body()


@pytest.mark.parametrize("case", STEPS, ids=[f"{number} {case['path']}" for number, case in enumerate(STEPS)])
def test_a_write_is_charged_or_refused_as_by_a_real_server(case: Data) -> None:
    updates, refused = _charged(case)
    if refused is not None or case["answer"]["kind"] == "Status":
        assert refused == case["answer"]
        return
    used = {quota["metadata"]["name"]: quota["status"]["used"] for quota in case["before"]}
    used |= {update.name: update.status["used"] for update in updates}
    assert used == case["after"]


@pytest.mark.parametrize("namespace", sorted(RECORDED["recalculated"]))
def test_the_sum_of_all_objects_equals_the_controllers_status(namespace: str) -> None:
    found = RECORDED["recalculated"][namespace]
    stored = Stored()
    for key, objects in found["objects"].items():
        group, _, plural = key.partition("/")
        for each in objects:
            version = f"{group}/v1" if group else "v1"
            stored.put({**each, "apiVersion": version, "kind": plural}, plural)
    for quota in found["quotas"]:
        emptied = {**quota, "status": {}}
        assert recalculate(emptied, stored, NOW) == quota["status"]
