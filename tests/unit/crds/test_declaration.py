from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field, model_validator

from konverge.crds import Cel, Column, CustomResource, Model, Scale, Status, declaration_of, resource, schema_of
from konverge.errors import SchemaError, UsageError
from konverge.kinds import kind, kind_of


class BackupSpec(Model):
    schedule: str
    keep_copies: int = 7


@resource("example.com/v1", short_names=("bk",), conditions=("Ready",), columns=(Column("Schedule", ".spec.schedule"),))
class Backup(CustomResource[BackupSpec, Status]):
    """Nightly copies of a volume."""


class FreeSpec(Model):
    size: int = 1


@resource("example.com/v1", scope="Cluster")
class Free(CustomResource[FreeSpec, Status]):
    """A cluster-scoped resource without required fields."""


# -- declarations ---------------------------------------------------------------------------------------------------


def test_a_declaration_fills_in_the_english_plural() -> None:
    declaration = declaration_of(Backup)
    assert (declaration.kind, declaration.plural, declaration.singular) == ("Backup", "backups", "backup")
    assert (declaration.crd_name, declaration.api_version) == ("backups.example.com", "example.com/v1")
    assert [column.name for column in declaration.all_columns()] == ["Schedule", "Age"]
    assert declaration.subresources == ("status",)
    assert declaration.conditions == ("Ready",)


def test_a_resource_has_a_kind_that_decodes_to_it() -> None:
    found = kind_of(Backup)
    assert found == kind("example.com/v1", "Backup")
    assert (found.plural, found.namespaced, kind_of(Free).namespaced) == ("backups", True, False)
    stored = {"metadata": {"name": "nightly"}, "spec": {"schedule": "x", "keepCopies": 2}}
    assert found.decode(stored).spec.keep_copies == 2
    assert kind_of(Backup.decode(stored)) == found
    assert found.new("a", "web", spec={"schedule": "x"}).spec.schedule == "x"


def declare(*arguments: Any, **options: Any) -> Any:
    class Sample(CustomResource[FreeSpec, Status]):
        pass

    return resource(*arguments, **options)(Sample)


MISTAKES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "a group without a dot": (("example/v1",), {}, "the group 'example' is a domain with a dot"),
    "no group": (("v1",), {}, "the group '' is a domain with a dot"),
    "a version that is none": (("example.com/1",), {}, "the version '1' is written as in v1"),
    "a kind in lower case": (("example.com/v1",), {"kind": "sample"}, "the kind is CamelCase"),
    "a plural in upper case": (("example.com/v1",), {"plural": "Samples"}, "'Samples' is no name of the API"),
    "a short name with an underscore": (("example.com/v1",), {"short_names": ("s_m",)}, "'s_m' is no name of the API"),
    "one short name, not a tuple": (("example.com/v1",), {"short_names": "sm"}, "short_names is a tuple of several; write short_names=('sm',)"),
    "one condition, not a tuple": (("example.com/v1",), {"conditions": "Ready"}, "write conditions=('Ready',)"),
    "one column, not a tuple": (("example.com/v1",), {"columns": Column("A", ".a")}, "columns is a tuple of several"),
    "one rule, not a tuple": (("example.com/v1",), {"rules": Cel("true", "m")}, "rules is a tuple of several"),
    "a condition with a blank": (("example.com/v1",), {"conditions": ("Not Ready",)}, "'Not Ready' is no condition type"),
    "a condition twice": (("example.com/v1",), {"conditions": ("Ready", "Ready")}, "the condition 'Ready' is declared twice"),
    "a column twice": (("example.com/v1",), {"columns": (Column("A", ".a"), Column("A", ".b"))}, "the column 'A' is declared twice"),
    "stored but not served": (("example.com/v1",), {"served": False}, "cannot be read; set storage=False or served=True"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "options", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_name_that_the_server_would_refuse_is_refused_at_once(
    arguments: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        declare(*arguments, **options)
    assert str(caught.value).startswith(f"@resource of {options.get('kind', 'Sample')}: ")
    assert words in str(caught.value)


def test_parts_of_a_declaration_are_checked_as_soon_as_they_are_made() -> None:
    with pytest.raises(UsageError, match="a path that starts with a dot"):
        Column("Schedule", "spec.schedule")
    with pytest.raises(UsageError, match="a priority of at least 0"):
        Column("Schedule", ".spec.schedule", priority=-1)
    with pytest.raises(UsageError, match="write the paths as in Scale"):
        Scale("spec.replicas", ".status.replicas")
    with pytest.raises(UsageError, match="the rule is empty"):
        Cel(" ", "m")
    with pytest.raises(UsageError, match="write one line"):
        Cel("true", "two\nlines")


def test_a_class_without_both_models_is_refused_as_a_resource() -> None:
    with pytest.raises(UsageError, match=r"class Sample\(CustomResource\[SampleSpec, SampleStatus\]\)"):

        @resource("example.com/v1", kind="Sample")
        class _Half(CustomResource):  # type: ignore[type-arg]  # the missing arguments are the test
            pass

    with pytest.raises(UsageError, match="decorate a class with both models"):
        resource("example.com/v1")(Model)  # type: ignore[type-var]  # so is this


def test_a_class_that_was_not_decorated_says_how() -> None:
    class Bare(CustomResource[FreeSpec, Status]):
        pass

    for ask in (declaration_of, schema_of, kind_of, lambda cls: cls.new("a")):
        with pytest.raises(UsageError, match=r"Bare declares no resource; decorate it with @resource"):
            ask(Bare)


def test_a_subclass_of_a_resource_is_declared_for_itself() -> None:
    class Special(Backup):
        pass

    with pytest.raises(UsageError, match="Special declares no resource"):
        declaration_of(Special)


def test_rules_of_a_whole_resource_are_an_argument() -> None:
    with pytest.raises(UsageError, match=r"@resource\(\.\.\., rules="):
        Cel("true", "m")(Backup)
    with pytest.raises(UsageError, match=r"decorates models; on a field write Annotated"):
        Cel("true", "m")(int)  # type: ignore[type-var]  # the wrong type is the test


# -- when the model is complete ---------------------------------------------------------------------------------------


class EarlySpec(Model):
    parts: list[LatePart] = Field(default_factory=list)


@resource("example.com/v1")
class Early(CustomResource[EarlySpec, Status]):
    pass


@resource("example.com/v1")
class EarlyWrong(CustomResource["LateSpec", "LateStatus"]):
    pass


class LatePart(Model):
    name: str


class LateSpec(Model):
    either: int | str = 1


class LateStatus(Status):
    pass


def test_forward_references_are_resolved_when_the_class_is_first_used() -> None:
    assert Early.decode({"spec": {"parts": [{"name": "a"}]}}).spec.parts == [LatePart(name="a")]
    assert schema_of(Early)["properties"]["spec"]["properties"]["parts"]["items"]["required"] == ["name"]


def test_a_model_is_checked_when_its_last_forward_reference_is_resolved() -> None:
    with pytest.raises(SchemaError, match=r"EarlyWrong: \.spec\.either: no structural schema can express a union"):
        EarlyWrong.model_rebuild()


def test_a_forward_reference_that_is_never_defined_is_named() -> None:
    class LostSpec(Model):
        part: Never = 1  # type: ignore[name-defined]  # noqa: F821 - never defined, which is the test

    @resource("example.com/v1")
    class Lost(CustomResource[LostSpec, Status]):
        pass

    with pytest.raises(UsageError, match="Lost refers to Never, which is not defined yet"):
        schema_of(Lost)


def test_every_field_of_a_status_has_a_default() -> None:
    class Demanding(Status):
        phase: str

    class Refusing(Status):
        phase: str = ""

        @model_validator(mode="after")
        def _never_empty(self) -> Refusing:
            if not self.phase:
                raise ValueError("no phase")
            return self

    with pytest.raises(SchemaError, match=r"\.status\.phase: a status is empty until a controller has written it"):

        @resource("example.com/v1")
        class A(CustomResource[FreeSpec, Demanding]):
            pass

    with pytest.raises(SchemaError, match="a validator of Refusing refuses an empty one"):

        @resource("example.com/v1")
        class B(CustomResource[FreeSpec, Refusing]):
            pass


def test_spec_and_status_are_models() -> None:
    with pytest.raises(SchemaError, match=r"A: \.spec: write a model"):

        @resource("example.com/v1")
        class A(CustomResource[str, Status]):  # type: ignore[type-var]  # the check rejects it, as mypy does
            pass

    with pytest.raises(SchemaError, match=r"B: \.status: write a model, class BStatus\(Status\)"):

        @resource("example.com/v1")
        class B(CustomResource[FreeSpec, FreeSpec]):  # type: ignore[type-var]  # so here
            pass


# -- the schema of the whole ------------------------------------------------------------------------------------------


def test_a_spec_with_required_fields_is_required() -> None:
    assert schema_of(Backup)["required"] == ["spec"]
    assert schema_of(Backup)["description"] == "Nightly copies of a volume."
    assert list(schema_of(Backup)["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema_of(Backup)["properties"]["metadata"] == {"type": "object"}


def test_optional_spec_defaults_to_the_defaults_of_its_fields() -> None:
    assert "required" not in schema_of(Free)
    assert schema_of(Free)["properties"]["spec"]["default"] == {"size": 1}


def test_a_spec_whose_defaults_its_own_validator_refuses_has_none() -> None:
    class Picky(Model):
        size: int = 0

        @model_validator(mode="after")
        def _positive(self) -> Picky:
            if self.size < 1:
                raise ValueError("too small")
            return self

    @resource("example.com/v1")
    class Picked(CustomResource[Picky, Status]):
        pass

    assert "default" not in schema_of(Picked)["properties"]["spec"]


def test_other_top_level_fields_are_part_of_the_schema() -> None:
    @resource("example.com/v1", rules=(Cel("has(self.data)", "data, please"),))
    class Holder(CustomResource[FreeSpec, Status]):
        data: dict[str, str] = Field(default_factory=dict)

    assert schema_of(Holder)["properties"]["data"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert schema_of(Holder)["x-kubernetes-validations"] == [{"rule": "has(self.data)", "message": "data, please"}]
    assert Holder.decode({"metadata": {"name": "a"}, "data": {"a": "b"}}).to_dict()["data"] == {"a": "b"}
