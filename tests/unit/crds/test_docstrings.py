"""The docstrings under fields are read when a schema is generated, and equal what pydantic's own option finds."""

from __future__ import annotations

import importlib.util
import linecache
import subprocess
import sys
import textwrap
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field

from konverge.crds import CustomResource, Model, Status, apps_v1alpha1, quota_v1beta2, resource, schema_of
from konverge.crds.docstrings import Docstrings
from konverge.crds.pydantic_schema import model_schema

T = TypeVar("T", bound=Model)


class Colour(Enum):
    """The colour of a thing."""

    RED = "red"


class Part(Model):
    """A part."""

    name: str
    """How it is called.

    In one word.
    """
    colour: Colour = Colour.RED
    """The colour of this part."""
    size: int = 1


class Base(Model):
    kept: int = 1
    """Of the base."""
    replaced: int = 1
    """Of the base, too."""
    silenced: int = 1
    """Gone."""


class Derived(Base):
    replaced: int = 2
    """Of the class itself."""
    silenced: int = 2
    own: Part | None = None
    """One part."""
    many: list[Part] = Field(default_factory=list)
    """All parts."""
    told: Annotated[int, Field(description="By the field.")] = 1
    """Unused docstring."""
    extra: int = Field(default=1, json_schema_extra={"description": "By the extra."})
    """Unused docstring."""
    if __name__:
        guarded: int = 1
        """Inside an if."""

    class Inner(Model):
        deep: int = 1
        """In a class in a class."""

    inner: Inner = Inner()

    def method(self) -> int:
        local: int = 1
        """No field."""
        return local


class Holder(Model, Generic[T]):
    held: T
    """The held part."""


class HoldsPart(Holder[Part]):
    more: int = 1
    """And more."""


class Theirs(BaseModel):
    quiet: int = 1
    """Ignored unless the model enables attribute docstrings."""


class TheirsAloud(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    aloud: int = 1
    """And then it does."""


class Off(Model):
    model_config = ConfigDict(use_attribute_docstrings=False)

    quiet: int = 1
    """Not wanted."""


class On(Model):
    model_config = ConfigDict(use_attribute_docstrings=True)

    aloud: int = 1
    """Wanted, by pydantic itself."""


class Mixed(Theirs, On):
    plain: Theirs = Theirs()
    loud: TheirsAloud = TheirsAloud()
    off: Off = Off()
    on: On = On()
    """The last one."""


def described(model: type[BaseModel]) -> dict[str, str]:
    properties = model_schema(model, described=True)["properties"]
    return {name: part["description"] for name, part in properties.items() if "description" in part}


def loaded(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_docstring_under_a_field_is_its_description() -> None:
    assert described(Part) == {"name": "How it is called.\n\nIn one word.", "colour": "The colour of this part."}


def test_a_field_has_the_words_of_the_class_that_annotated_it_last() -> None:
    assert described(Derived) == {
        "kept": "Of the base.",
        "replaced": "Of the class itself.",
        "own": "One part.",
        "many": "All parts.",
        "told": "By the field.",
        "extra": "By the extra.",
        "guarded": "Inside an if.",
    }


def test_nested_models_and_generic_ones_are_described_in_place() -> None:
    parts = model_schema(Derived, described=True)["$defs"]
    assert parts["Part"]["properties"]["name"]["description"].startswith("How it is called.")
    assert parts["Inner"]["properties"]["deep"]["description"] == "In a class in a class."
    assert described(HoldsPart) == {"held": "The held part.", "more": "And more."}
    assert described(Holder[Part]) == {"held": "The held part."}


def test_models_that_set_the_option_of_pydantic_have_it_their_way() -> None:
    assert described(Mixed) == {"aloud": "Wanted, by pydantic itself.", "on": "The last one."}
    parts = model_schema(Mixed, described=True)["$defs"]
    assert "description" not in parts["Theirs"]["properties"]["quiet"]
    assert "description" not in parts["Off"]["properties"]["quiet"]
    assert parts["TheirsAloud"]["properties"]["aloud"]["description"] == "And then it does."


def test_class_in_a_function_and_duplicate_class_name_are_documented() -> None:
    def first() -> type[Model]:
        class Local(Model):
            here: int = 1
            """In the first function."""

        return Local

    def second(*, other: bool) -> type[Model]:
        if other:

            class Local(Model):
                left: int = 1
                """The one way."""

            return Local

        class Local(Model):  # type: ignore[no-redef]  # what this test is about
            right: int = 1
            """The other way."""

        return Local

    assert described(first()) == {"here": "In the first function."}
    assert described(second(other=True)) == {"left": "The one way."}
    assert described(second(other=False)) == {"right": "The other way."}


def test_a_resource_reads_sources_for_its_whole_schema_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[type] = []
    real: Callable[..., dict[str, str]] = Docstrings.of

    def noted(self: Docstrings, cls: type[BaseModel]) -> dict[str, str]:
        asked.append(cls)
        return real(self, cls)

    monkeypatch.setattr(Docstrings, "of", noted)

    class ThingSpec(Model):
        size: int = 1
        """How big."""

    @resource("example.com/v1")
    class Thing(CustomResource[ThingSpec, Status]):
        """A thing."""

        extra: Part | None = None
        """A part of its own."""

    assert Thing.new("a").to_dict()["kind"] == "Thing"
    assert asked == []
    found = schema_of(Thing)["properties"]
    assert found["spec"]["properties"]["size"]["description"] == "How big."
    assert found["extra"]["description"] == "A part of its own."
    assert found["status"]["properties"]["conditions"]["description"] == "The state of the object, one aspect each."
    assert ThingSpec in asked
    asked.clear()
    assert schema_of(Thing)["properties"] is found
    assert asked == []


@pytest.mark.parametrize("module", [apps_v1alpha1, quota_v1beta2, sys.modules[__name__]])
def test_the_words_are_those_that_pydantic_finds_itself(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the module is loaded with pydantic's option on; every model of it must have the same fields and descriptions."""
    assert module.__file__
    copied = tmp_path / "words_again.py"
    copied.write_text(Path(module.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setitem(Model.model_config, "use_attribute_docstrings", True)
    again = loaded(copied.stem, copied, monkeypatch)
    ours, theirs = {}, {}
    for model in vars(again).values():
        if (
            isinstance(model, type)
            and issubclass(model, Model)
            and model.__module__ == again.__name__
            and model.model_config.get("use_attribute_docstrings")  # False if a base was created before
        ):
            words = Docstrings().of(getattr(module, model.__name__))
            for name, field in model.model_fields.items():
                if field.description != "By the field.":
                    ours[model.__name__, name], theirs[model.__name__, name] = words.get(name), field.description
    assert ours == theirs
    assert sum(text is not None for text in theirs.values()) > 5


# -- classes without docstrings ---------------------------------------------------------------------------------------


def test_a_module_without_source_has_no_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "vanishing.py"
    file.write_text(
        "from konverge.model import Model\nclass Gone(Model):\n    size: int = 1\n    '''How big.'''\n    n: int = 2\n"
    )
    module = loaded("vanishing", file, monkeypatch)
    assert described(module.Gone) == {"size": "How big."}
    file.write_text("class Gone(  # not Python any more\n")
    assert described(module.Gone) == {}
    file.write_text("class Gone:\n    other: int = 1\n    '''Another class.'''\n")
    assert described(module.Gone) == {}
    file.unlink()
    linecache.clearcache()
    assert described(module.Gone) == {}


def test_a_model_made_by_exec_has_no_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from konverge.model import Model\nclass Part(Model):\n    size: int = 1\n    '''How big.'''\n"
    module = ModuleType("made_by_exec")
    exec(compile(source, "<nowhere>", "exec"), module.__dict__)
    assert described(module.Part) == {}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert described(module.Part) == {}
    # The name of a class in this file, but with other fields.
    monkeypatch.setattr(module.Part, "__module__", __name__)
    assert described(module.Part) == {}


def test_program_from_an_archive_is_described_and_a_compiled_program_is_not(tmp_path: Path) -> None:
    """`python -m zipapp` keeps sources, a folder of .pyc files does not; no case raises."""
    (tmp_path / "models.py").write_text(
        textwrap.dedent('''
            import konverge as kv

            class Spec(kv.Model):
                size: int = 1
                """How big."""

            @kv.resource("example.com/v1")
            class Thing(kv.CustomResource[Spec, kv.Status]):
                """A thing."""
            ''')
    )
    program = (
        "import sys, zipfile, py_compile, os; sys.path.insert(0, sys.argv[1]);"
        "from konverge.crds import schema_of; from models import Thing;"
        "print(schema_of(Thing)['properties']['spec']['properties']['size'])"
    )
    archive, compiled = tmp_path / "a.zip", tmp_path / "c"
    make = (
        "import sys, zipfile, py_compile; z = zipfile.ZipFile(sys.argv[2], 'w'); z.write(sys.argv[1], 'models.py'); z.close();"
        "py_compile.compile(sys.argv[1], sys.argv[3] + '/models.pyc')"
    )
    compiled.mkdir()
    subprocess.run(
        [sys.executable, "-c", make, str(tmp_path / "models.py"), str(archive), str(compiled)], check=True, timeout=60
    )
    (tmp_path / "models.py").unlink()
    said: dict[Path, Any] = {}
    for place in (archive, compiled):
        done = subprocess.run(
            [sys.executable, "-c", program, str(place)], check=True, capture_output=True, text=True, timeout=60
        )
        said[place] = done.stdout.strip()
    assert said[archive] == "{'description': 'How big.', 'type': 'integer', 'default': 1}"
    assert said[compiled] == "{'type': 'integer', 'default': 1}"
