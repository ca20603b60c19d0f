"""The base of pydantic models that stand for parts of API objects.

Promises: what was set is what is written, and nothing else, whether it was set by the constructor, by assignment or by changing a
nested model, list or dict that came from a default. Errors of validation do not show the values that they refuse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Model"]

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types whose values cannot be changed in place and hold no models: most fields are of these."""
_CHANGEABLE = (BaseModel, list, dict)


class Model(BaseModel):
    """A part of an API object: snake_case in Python, camelCase on the wire.

    Both spellings are accepted when reading. Unknown fields are ignored when reading (the API server has pruned what the schema
    does not know, and a newer version of the schema must not break an older reader). A docstring under a field describes it in
    the CRD; it is read when the CRD is made (`konverge.crds.docstrings`), not in pydantic's own JSON schema.

    >>> class BackupSpec(Model):
    ...     keep_copies: int = 7
    >>> BackupSpec(keep_copies=3).wire()
    {'keepCopies': 3}
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        validate_assignment=True,
        hide_input_in_errors=True,
        extra="ignore",
    )

    def wire(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields that were set, in the API's spelling and types; `without` names fields to leave out, as in Python."""
        _note_changed_defaults(self, without)
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=set(without) or None)


def _note_changed_defaults(model: BaseModel, without: Collection[str] = ()) -> None:
    """Count as set what was changed in place: pydantic itself notices assignments only."""
    values = model.__dict__
    for name, field in type(model).model_fields.items():
        value = values.get(name)
        if type(value) in _PLAIN or name in without:
            continue
        for part in _models_in(value):
            _note_changed_defaults(part)
        if name in model.model_fields_set or not isinstance(value, _CHANGEABLE):
            continue
        default = field.get_default(call_default_factory=True, validated_data=model.__dict__)
        if _changed(value, default):
            model.model_fields_set.add(name)


def _changed(value: BaseModel | list[Any] | dict[str, Any], default: Any) -> bool:
    """Tell whether a value is no longer its default; a field that was set to the value of its default counts as changed."""
    if not isinstance(value, BaseModel):
        return bool(value != default)
    before = default.model_fields_set if isinstance(default, BaseModel) else set()
    return value.model_fields_set != before or (isinstance(default, BaseModel) and value != default)


def _models_in(value: Any) -> Iterable[BaseModel]:
    if isinstance(value, BaseModel):
        return (value,)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [item for item in items if type(item) not in _PLAIN and isinstance(item, BaseModel)]
