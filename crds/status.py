"""The base of status models, and a tolerant reader of stored statuses.

Guarantees: `readable` never raises. Of a status that does not decode it keeps the observed generation and the conditions, because the
times of their last transitions cannot be restored; the rest is read as empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from konverge.conditions import Condition, find_condition
from konverge.crds.markers import ListMap
from konverge.model import Model

__all__ = ["Status", "readable"]


class Status(Model):
    """The base of status models: it has observedGeneration and conditions.

    Every field of a status has a default: a status is empty until a controller has written it.

    >>> class BackupStatus(Status):
    ...     cron_job: str | None = None
    >>> BackupStatus(cron_job="nightly").wire()
    {'cronJob': 'nightly'}
    """

    observed_generation: Annotated[int | None, Field(json_schema_extra={"format": "int64"})] = None
    """The metadata.generation that the controller last handled."""
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    """The state of the object, one aspect each."""

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, None if absent."""
        return find_condition(self.conditions, type_)


S = TypeVar("S", bound=Status)


def readable(model: type[S], stored: Any) -> S:
    """Return a stored status, or its readable part."""
    if not isinstance(stored, Mapping):
        return model.model_validate({})
    try:
        return model.model_validate(stored)
    except ValidationError:
        kept = _salvage(stored)
    try:
        return model.model_validate(kept)
    except ValidationError:
        return model.model_validate({})


def _salvage(stored: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    generation, entries = stored.get("observedGeneration"), stored.get("conditions")
    if isinstance(generation, int) and not isinstance(generation, bool):
        kept["observedGeneration"] = generation
    if isinstance(entries, list):
        kept["conditions"] = [
            Condition.lenient(entry) for entry in entries if isinstance(entry, Mapping) and entry.get("type")
        ]
    return kept
