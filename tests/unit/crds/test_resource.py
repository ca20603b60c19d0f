from __future__ import annotations

import copy
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from konverge.conditions import Condition
from konverge.crds import (
    Column,
    CustomResource,
    Model,
    Nullable,
    PreserveUnknown,
    Status,
    resource,
)
from konverge.errors import InvalidObject, UsageError
from konverge.objects import Metadata


class BackupSpec(Model):
    schedule: str
    keep_copies: Annotated[int, Field(ge=1)] = 7
    limit: Annotated[int | None, Nullable()] = None
    note: str | None = None
    options: Annotated[dict[str, Any], PreserveUnknown()] | None = None


class BackupStatus(Status):
    cron_job: str | None = None
    sizes: dict[str, int] = Field(default_factory=dict)


@resource(
    "example.com/v1",
    short_names=("bk",),
    conditions=("Ready",),
    columns=(Column("Schedule", ".spec.schedule"),),
)
class Backup(CustomResource[BackupSpec, BackupStatus]):
    """Nightly copies of a volume."""


class FreeSpec(Model):
    size: int = 1


@resource("example.com/v1", scope="Cluster")
class Free(CustomResource[FreeSpec, Status]):
    """A cluster-scoped resource without required fields."""


STORED: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Backup",
    "metadata": {
        "name": "nightly",
        "namespace": "web",
        "uid": "u-1",
        "generation": 3,
        "labels": {"a": "b"},
        "managedFields": [{"manager": "kubectl"}],
        "deletionTimestamp": "2030-01-01T00:00:00Z",
    },
    "spec": {"schedule": "0 3 * * *", "keepCopies": 2},
    "status": {
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "False", "reason": "Late", "message": "no", "lastTransitionTime": "2030-01-01T00:00:00Z"}],
        "cronJob": "nightly",
    },
}  # fmt: skip


def stored(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(STORED) | changes


# -- what is sent ---------------------------------------------------------------------------------------------------


def test_only_the_fields_that_were_set_are_sent() -> None:
    assert Backup.new("nightly", "web", spec=BackupSpec(schedule="0 3 * * *"), labels={"a": "b"}).to_dict() == {
        "apiVersion": "example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "nightly", "namespace": "web", "labels": {"a": "b"}},
        "spec": {"schedule": "0 3 * * *"},
    }


def test_a_field_set_to_its_default_is_sent() -> None:
    assert Backup.new("a", spec=BackupSpec(schedule="x", keep_copies=7)).to_dict()["spec"] == {
        "schedule": "x",
        "keepCopies": 7,
    }


def test_null_is_sent_only_for_nullable_fields_and_inside_preserved_ones() -> None:
    spec = BackupSpec(schedule="x", limit=None, note=None, options={"a": None, "b": [None]})
    assert Backup.new("a", spec=spec).to_dict()["spec"] == {
        "schedule": "x",
        "limit": None,
        "options": {"a": None, "b": [None]},
    }


def test_fields_that_were_changed_in_place_are_sent() -> None:
    backup = Backup.new("a", spec=BackupSpec(schedule="x"))
    backup.status.sizes["full"] = 3
    backup.status.cron_job = "nightly"
    assert backup.to_dict()["status"] == {"sizes": {"full": 3}, "cronJob": "nightly"}
    free = Free.new("a")
    assert "spec" not in free.to_dict()
    free.spec.size = 1
    assert free.to_dict()["spec"] == {"size": 1}


def test_an_object_that_was_read_is_sent_as_it_was_read() -> None:
    sent = Backup.decode(stored()).to_dict()
    assert sent["spec"] == STORED["spec"]
    assert sent["status"] == STORED["status"]
    assert "managedFields" not in sent["metadata"]


def test_spec_is_optional_if_none_of_its_fields_is_required() -> None:
    assert Free.new("a").to_dict() == {"apiVersion": "example.com/v1", "kind": "Free", "metadata": {"name": "a"}}
    with pytest.raises(UsageError, match=r"Backup\.new\('a'\): give it a spec; these fields have no default: schedule"):
        Backup.new("a")


def test_a_namespace_of_a_cluster_scoped_resource_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="Free is cluster-scoped; leave out the namespace"):
        Free.new("a", "web")


def test_a_new_object_does_not_share_its_labels_with_the_caller() -> None:
    labels = {"a": "b"}
    backup = Backup.new("a", spec=BackupSpec(schedule="x"), labels=labels)
    labels["a"] = "c"
    assert backup.labels == {"a": "b"}


# -- what is read ---------------------------------------------------------------------------------------------------


def test_an_object_is_read_into_its_models() -> None:
    backup = Backup.decode(stored())
    assert (backup.name, backup.namespace, backup.uid, backup.generation) == ("nightly", "web", "u-1", 3)
    assert (backup.labels, backup.annotations, backup.deleting) == ({"a": "b"}, {}, True)
    assert (backup.spec.schedule, backup.spec.keep_copies, backup.status.cron_job) == ("0 3 * * *", 2, "nightly")
    assert backup.condition("Ready").reason == "Late"
    assert backup.invalid_status is None


def test_fields_that_the_model_does_not_know_are_ignored() -> None:
    backup = Backup.decode(stored(spec={"schedule": "x", "newer": 1}, status={"newer": 1}))
    assert backup.to_dict()["spec"] == {"schedule": "x"}


def test_a_status_is_always_there() -> None:
    absent = stored()
    del absent["status"]
    assert Backup.decode(absent).status == BackupStatus()
    assert Backup.decode(absent).conditions == ()
    assert "status" not in Backup.decode(absent).to_dict()


def test_absent_condition_is_none_or_an_error_that_lists_present_conditions() -> None:
    backup = Backup.decode(stored())
    assert backup.find_condition("Copied") is None
    with pytest.raises(LookupError, match=r"Backup web/nightly has no condition Copied \(conditions: Ready\)"):
        backup.condition("Copied")


def test_metadata_is_read_only() -> None:
    backup = Backup.decode(stored())
    with pytest.raises(ValidationError, match="Field is frozen"):
        setattr(backup, "metadata", Metadata(name="other"))  # noqa: B010 - some checkers know that it is read only


def test_the_spec_checks_what_is_assigned_to_it() -> None:
    backup = Backup.decode(stored())
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        backup.spec.keep_copies = 0


def test_a_repr_shows_the_name_and_nothing_of_the_content() -> None:
    assert repr(Backup.decode(stored())) == str(Backup.decode(stored())) == "Backup(namespace='web', name='nightly')"
    assert repr(Free.new("a")) == "Free(name='a')"


MISFITS: dict[str, tuple[Any, str, str]] = {
    "a missing field": ({}, ".spec.schedule", "required; write it"),
    "a missing spec": (..., ".spec.schedule", "required; write it"),
    "a spec that is null": (None, ".spec", "write an object"),
    "a wrong type": ({"schedule": 3}, ".spec.schedule", "write a text"),
    "a number that is none": ({"schedule": "x", "keepCopies": "hunter2"}, ".spec.keepCopies", "write a whole number"),
    "a bound": ({"schedule": "x", "keepCopies": 0}, ".spec.keepCopies", "write 1 or more"),
    "several: the first": ({"schedule": 3, "keepCopies": 0}, ".spec.schedule", "write a text"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "field", "problem"), MISFITS.values(), ids=MISFITS)
def test_object_that_does_not_fit_is_an_error_with_the_path(spec: Any, field: str, problem: str) -> None:
    data = stored()
    data.pop("spec")
    with pytest.raises(InvalidObject) as caught:
        Backup.decode(data if spec is ... else {**data, "spec": spec})
    assert (caught.value.field, caught.value.problem) == (field, problem)
    assert str(caught.value) == f"Backup web/nightly does not decode: {field}: {problem}"


def test_the_error_carries_no_other_error_that_would_quote_values() -> None:
    with pytest.raises(InvalidObject) as caught:
        Backup.decode(stored(spec={"schedule": ["hunter2"]}))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


UNREADABLE: dict[str, tuple[Any, BackupStatus, str]] = {
    "a field of a wrong type": (
        {"cronJob": 3, "observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t"}]},
        BackupStatus(observed_generation=2, conditions=(Condition(type="Ready", status="True", last_transition_time="t"),)),
        ".status.cronJob",
    ),
    "conditions among which one is none": (
        {"conditions": [3, {"status": "True"}, {"type": "Ready", "status": "Maybe"}]},
        BackupStatus(conditions=(Condition(type="Ready", status="Unknown"),)),
        ".status.conditions[0]",
    ),
    "conditions that are no list": ({"conditions": "none"}, BackupStatus(), ".status.conditions"),
    "a generation that is no number": ({"observedGeneration": "x", "cronJob": "a"}, BackupStatus(), ".status.observedGeneration"),
    "a generation beyond reason": ({"observedGeneration": True, "conditions": 1}, BackupStatus(), ".status.conditions"),
    "no object": ("done", BackupStatus(), ".status"),
    "null": (None, BackupStatus(), ".status"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "kept", "field"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_status_is_read_as_far_as_it_goes(status: Any, kept: BackupStatus, field: str) -> None:
    backup = Backup.decode(stored(status=status))
    assert backup.status == kept
    assert backup.spec.schedule == "0 3 * * *"
    assert backup.invalid_status is not None
    assert backup.invalid_status.field == field


def test_an_object_that_does_not_decode_still_has_metadata_and_status() -> None:
    data = stored(spec={"schedule": 3})
    error = InvalidObject("Backup web/nightly", ".spec.schedule", "wrong")
    backup = Backup.undecoded(data, error)
    assert (backup.name, backup.deleting, backup.condition("Ready").reason) == ("nightly", True, "Late")
    assert backup.status.cron_job == "nightly"
    assert repr(backup) == "Backup(namespace='web', name='nightly')"
    for _ in range(2):
        with pytest.raises(InvalidObject) as caught:
            _ = backup.spec
        assert caught.value is error
    assert backup.to_dict() == data
    assert backup.to_dict() is not data


def test_an_object_that_does_not_decode_has_no_other_attributes() -> None:
    backup = Backup.undecoded(stored(), InvalidObject("Backup", ".spec", "wrong"))
    with pytest.raises(AttributeError, match="schedule"):
        _ = backup.schedule  # type: ignore[attr-defined]  # the typo is the test


def test_metadata_that_does_not_decode_raises_the_error_itself() -> None:
    error = InvalidObject("Backup", ".metadata", "wrong")
    with pytest.raises(InvalidObject) as caught:
        Backup.undecoded({"metadata": {"name": 3}}, error)
    assert caught.value is error
    with pytest.raises(InvalidObject) as raised:
        Backup.decode(stored(metadata={"name": 3}))
    assert raised.value.field == ".metadata"


# -- the words of validators -----------------------------------------------------------------------------------------


class Checked(Model):
    text: str = ""
    number: int = 0
    words: str = ""

    @field_validator("text")
    @classmethod
    def _check(cls, value: str) -> str:
        if value:
            raise ValueError(f"cannot read {value!r}")
        return value

    @field_validator("number")
    @classmethod
    def _check_number(cls, value: int) -> int:
        if value:
            raise ValueError(f"{value} is odd")
        return value

    @model_validator(mode="after")
    def _check_all(self) -> Checked:
        if self.words:
            raise ValueError(self.words)
        return self


@resource("example.com/v1")
class Guarded(CustomResource[Checked, Status]):
    pass


HIDDEN = "refused by a validator of the model (its words are not shown, they quote the value)"
WORDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "words that quote a text": ({"text": "hunter2"}, ".spec.text", HIDDEN),
    "words that quote a part of it": ({"text": "password: *hunter2"}, ".spec.text", HIDDEN),
    "words that quote a number": ({"number": 41}, ".spec.number", HIDDEN),
    "words of a check of the whole that quote a field": ({"words": "the words are themselves"}, ".spec", HIDDEN),
}


@pytest.mark.parametrize(("spec", "field", "problem"), WORDS.values(), ids=WORDS)
def test_the_words_of_a_validator_are_hidden_if_they_quote_the_value(
    spec: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(InvalidObject) as caught:
        Guarded.decode({"metadata": {"name": "a"}, "spec": spec})
    assert (caught.value.field, caught.value.problem) == (field, problem)


def test_validator_message_is_shown_unless_it_quotes_the_value() -> None:
    class Window(Model):
        start: int = 0
        end: int = 0

        @model_validator(mode="after")
        def _ordered(self) -> Window:
            if self.start > self.end:
                raise ValueError("the window ends before it starts")
            return self

    @resource("example.com/v1")
    class Windowed(CustomResource[Window, Status]):
        pass

    with pytest.raises(InvalidObject, match=r"Windowed does not decode: \.spec: the window ends before it starts$"):
        Windowed.decode({"spec": {"start": 5000}})
