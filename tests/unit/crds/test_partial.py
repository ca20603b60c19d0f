from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import Field

from konverge.conditions import is_true
from konverge.crds import PartialModel, PartialResource
from konverge.errors import InvalidObject, UsageError
from konverge.kinds import kind, kind_of


class Container(PartialModel):
    name: str
    image: str | None = None


class PodSpec(PartialModel):
    containers: list[Container] = Field(default_factory=list)


class Template(PartialModel):
    spec: PodSpec = Field(default_factory=PodSpec)


class CronJobSpec(PartialModel):
    schedule: str
    suspend: bool = False
    by_name: dict[str, Container] = Field(default_factory=dict)
    template: Template | None = None


class CronJobView(PartialResource):
    spec: CronJobSpec


CRON_JOB = kind("batch/v1", "CronJob", model=CronJobView)
STORED: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {
        "name": "nightly",
        "namespace": "web",
        "uid": "u-1",
        "labels": {"a": "b"},
        "selfLink": "/somewhere",
        "deletionGracePeriodSeconds": 30,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "schedule": "0 3 * * *",
        "timeZone": None,
        "snake_case": 1,
        "byName": {"a": {"name": "a", "args": ["x"]}},
        "template": {
            "metadata": {"labels": {}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "copy", "env": [{"name": "A", "value": ""}], "resources": {}}],
            },
        },
    },
    "status": {"lastScheduleTime": "2030-01-01T03:00:00Z", "active": []},
}


def test_fields_that_a_partial_model_does_not_name_survive_at_every_level() -> None:
    view = CRON_JOB.decode(copy.deepcopy(STORED))
    assert view.to_dict() == STORED


def test_fields_that_a_partial_model_names_are_typed_and_can_be_changed() -> None:
    view = CRON_JOB.decode(copy.deepcopy(STORED))
    assert view.spec.template is not None
    assert view.spec.template.spec.containers[0].name == "copy"
    view.spec.suspend = True
    view.spec.template.spec.containers[0].image = "copy:2"
    view.spec.template.spec.containers.append(Container(name="other"))
    expected = copy.deepcopy(STORED)
    expected["spec"]["suspend"] = True
    expected["spec"]["template"]["spec"]["containers"][0]["image"] = "copy:2"
    expected["spec"]["template"]["spec"]["containers"].append({"name": "other"})
    assert view.to_dict() == expected


@pytest.mark.parametrize("typed", [False, True])
def test_conditions_are_read_whether_or_not_the_model_names_them(typed: bool) -> None:
    class Entry(PartialModel):
        type: str
        status: str

    class Status(PartialModel):
        conditions: list[Entry] | None = None

    class TypedView(PartialResource):
        status: Status = Field(default_factory=Status)

    jobs = kind("batch/v1", "Job", model=TypedView if typed else PartialResource)
    entry = {"type": "Complete", "status": "True", "reason": "Done", "lastProbeTime": "x"}
    job = jobs.new("a", status={"conditions": [entry]})
    assert (job.condition("Complete").reason, is_true("Complete")(job)) == ("Done", True)
    assert (job.find_condition("Failed"), jobs.new("a").conditions) == (None, ())
    with pytest.raises(LookupError, match="Job a has no condition Failed"):
        job.condition("Failed")


def test_a_view_shares_nothing_with_what_it_returns() -> None:
    view = CRON_JOB.decode(copy.deepcopy(STORED))
    sent = view.to_dict()
    sent["metadata"]["labels"]["a"] = "changed"
    sent["spec"]["template"]["metadata"]["labels"]["a"] = "changed"
    assert view.to_dict() == STORED


def test_a_view_has_the_metadata_of_every_object() -> None:
    view = CRON_JOB.decode(copy.deepcopy(STORED))
    assert (view.name, view.namespace, view.uid, view.labels, view.annotations) == (
        "nightly",
        "web",
        "u-1",
        {"a": "b"},
        {},
    )
    assert repr(view) == str(view) == "CronJobView(kind='CronJob', path='web/nightly')"


def test_a_new_object_of_the_kind_holds_what_was_given() -> None:
    made = CRON_JOB.new("nightly", "web", labels={"a": "b"}, spec={"schedule": "x", "timeZone": "UTC"})
    assert made.spec.schedule == "x"
    assert made.to_dict() == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "web", "labels": {"a": "b"}},
        "spec": {"schedule": "x", "timeZone": "UTC"},
    }


def test_an_object_knows_its_kind_and_the_class_asks_for_one() -> None:
    view = CRON_JOB.decode(copy.deepcopy(STORED))
    assert kind_of(view) == CRON_JOB
    assert kind_of(view).decode(copy.deepcopy(STORED)).spec.schedule == "0 3 * * *"
    with pytest.raises(UsageError, match=r"name it: kv\.kind\('group/v1', 'Kind', model=CronJobView\)"):
        kind_of(CronJobView)


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        ({}, ".spec.schedule", "required; write it"),
        ({"schedule": 3}, ".spec.schedule", "write a text"),
        ({"schedule": "x", "template": {"spec": {"containers": [{}]}}}, ".spec.template.spec.containers[0].name", "required; write it"),
        ({"schedule": "x", "byName": {"a/b": {}}}, '.spec.byName["a/b"].name', "required; write it"),
    ],
)  # fmt: skip
def test_a_misfit_is_an_error_with_its_path(spec: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        CRON_JOB.decode({"metadata": {"name": "nightly", "namespace": "web"}, "spec": spec})
    assert str(caught.value) == f"CronJob web/nightly does not decode: {field}: {problem}"
    assert caught.value.__context__ is None
