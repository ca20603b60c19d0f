"""No sentence of pydantic or of errno reaches a user: each violation of each model of each family has a message of our own."""

import errno
import os
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core.core_schema import ErrorType

from konverge.crds.catalogue import own_resources
from konverge.crds.decoding import misfits, problem_words
from konverge.crds.sentences import SENTENCES
from konverge.daemon.settings import Settings
from konverge.os_errors import OS_ERRORS, describe_os_error
from konverge.reconcilers.apps.operations.engines.typed_parameters import EngineParameters
from konverge.reconcilers.clusters import protocol

THEIRS = re.compile(
    r"(String|Input|Value|URL|Date|Datetime|Tuple|List|Dictionary|Set|Decimal|UUID|JSON) (should|must|input|error|is too)"
    r"|Field required|Extra inputs|should (be|match|have)|valid (string|integer|number|boolean|dictionary|list)"
)
"""Phrases of pydantic."""
WRONG: tuple[Any, ...] = (
    *(None, True, 3, -1, 2**70, 1.5, float("inf"), float("nan"), "", "A b/", "x" * 5000, "\x00", b"\xff"),
    *([], [None], {}, {"a": None}, {"unknown": 1}, object()),
)
"""Values of which each field refuses some."""
MESSAGES = (protocol.Job, protocol.JobResult, protocol.StatusEvent, protocol.EventBatch, protocol.Credential)


def subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model and the models below it."""
    yield model
    for below in model.__subclasses__():
        yield from subclasses(below)


def models_in(annotation: Any, seen: set[type[BaseModel]]) -> None:
    """Collect the models that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation in seen:
            return
        seen.add(annotation)
        for field in annotation.model_fields.values():
            models_in(field.annotation, seen)
        return
    for part in get_args(annotation):
        models_in(part, seen)


def all_models() -> list[type[BaseModel]]:
    """Return the models of the kinds, the parameters of Operations, the messages of pull mode, and the settings."""
    seen: set[type[BaseModel]] = set()
    for root in (*own_resources(), *subclasses(EngineParameters), *MESSAGES, Settings):
        models_in(root, seen)
    return sorted(seen, key=lambda model: f"{model.__module__}.{model.__qualname__}")


def violations(model: type[BaseModel]) -> Iterator[Any]:
    """Yield values that the model may reject: each field with each wrong value, and wrong values of the whole object."""
    yield from WRONG
    for name, field in model.model_fields.items():
        for value in WRONG:
            yield {field.alias or name: value}
            yield {field.alias or name: [value]}
            yield {field.alias or name: {"a": value}}


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__qualname__)
def test_a_violation_of_a_model_is_reported_in_our_own_words(model: type[BaseModel]) -> None:
    for value in violations(model):
        try:
            model.model_validate(value)
        except ValidationError as error:
            for details in misfits(error):
                words = problem_words(details)
                assert THEIRS.search(words) is None, f"{details['type']}: {words}"
                assert "{" not in words or details["type"] == "string_pattern_mismatch", words


def test_each_type_of_error_of_pydantic_has_a_sentence() -> None:
    assert set(get_args(ErrorType)) - set(SENTENCES) == set()
    for type_, sentence in SENTENCES.items():
        assert THEIRS.search(sentence) is None, type_


def test_all_models_of_the_families_are_tried() -> None:
    found = all_models()
    assert set(own_resources()) <= set(found)
    assert len(found) > 100


def test_an_error_of_the_system_is_described_without_its_own_text() -> None:
    for number, name in errno.errorcode.items():
        words = describe_os_error(OSError(number, os.strerror(number)))
        assert os.strerror(number).lower() not in words.lower(), name
        assert name in words or words == OS_ERRORS[number]
