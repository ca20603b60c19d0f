"""Reads the open `spec.parameters` of an Operation into a model of the engine.

Guarantees: a parameter that the engine does not know is an error, so a misspelt one is never ignored. Messages name the parameter and
what to write, never the value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from konverge.crds.decoding import misfits, problem_words
from konverge.crds.durations import format_duration
from konverge.reconcilers.apps.operations.engines.engine import Refused
from konverge.reconcilers.shared.durations import parse_days

__all__ = ["EngineParameters", "GoDuration", "ObjectName", "ParameterGroup", "go_duration", "read_parameters"]


class ParameterGroup(BaseModel):
    """Parameters below a parameter, in the API's spelling."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class EngineParameters(ParameterGroup):
    """The parameters of one engine for one type of Operation."""

    exclusive: bool = False
    """Read only by the order of Operations: nothing else may run on the target at the same time."""


ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""The name of another object. A name of another form cannot exist, so an Operation that waited for it would wait for ever."""

P = TypeVar("P", bound=EngineParameters)


def go_duration(value: Any) -> str:
    """Write a duration as Go reads it, days as hours; raises ValueError for anything else, and for zero.

    >>> go_duration("30d"), go_duration("1h30m"), go_duration(90)
    ('720h', '1h30m', '1m30s')
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("write a duration as in 90s, 12h or 30d")
    try:
        duration = parse_days(value) if isinstance(value, str) else timedelta(seconds=value)
    except (ValueError, OverflowError):
        raise ValueError("write a duration as in 90s, 12h or 30d") from None
    if duration <= timedelta(0):
        raise ValueError("write a duration above zero")
    return format_duration(duration)


GoDuration = Annotated[str, BeforeValidator(go_duration)]
"""A duration that may contain days (`30d`), as a Go duration."""


def read_parameters(model: type[P], parameters: Mapping[str, Any]) -> P | Refused:
    """Return the parameters, or why they can never work."""
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        known = ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))
        problems = []
        for problem in misfits(error):
            where = ".".join(str(step) for step in problem["loc"])
            if problem["type"] == "extra_forbidden":
                problems.append(f"parameters.{where}: unknown; the engine knows {known}")
            elif problem["type"] == "missing":
                problems.append(f"parameters.{where}: required")
            else:
                text = problem_words(problem, quoting=True)  # our validators quote no value
                problems.append(f"parameters.{where}: {text}" if where else f"parameters: {text}")
        return Refused("; ".join(problems))
