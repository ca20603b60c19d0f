"""The base of pydantic models that represent parts of API objects.

Guarantees: exactly the fields that were set are written, whether they were set by the constructor, by assignment or by changing a
nested model, list or dict that was a default. Errors of validation do not show the values that they refuse. A misspelt argument
of a constructor is an error, while an unknown field of a stored object is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict

from konverge.errors import UsageError

__all__ = ["Model"]

_ARGUMENTS = "__konverge_arguments__"
"""The attribute of a model with the names that its constructor takes."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types whose values cannot be changed in place and hold no models: most fields are of these."""
_CHANGEABLE = (BaseModel, list, dict)


def camel_case(name: str) -> str:
    """Return the name of a field as the API spells it. A digit does not end a word: pydantic's own function writes `k8SVersion`.

    >>> camel_case("keep_copies"), camel_case("k8s_version"), camel_case("md5sum"), camel_case("s3_uri_2fa")
    ('keepCopies', 'k8sVersion', 'md5sum', 's3Uri2fa')
    """
    first, *rest = name.strip("_").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class Model(BaseModel):
    """A part of an API object: snake_case in Python, camelCase on the wire.

    Both spellings are accepted when reading. Unknown fields are ignored when reading (the API server has pruned what the schema
    does not know, and a newer version of the schema must not break an older reader). A docstring under a field describes it in
    the CRD; it is read when the CRD is generated (`konverge.crds.docstrings`), not in pydantic's own JSON schema.

    >>> class BackupSpec(Model):
    ...     keep_copies: int = 7
    >>> BackupSpec(keep_copies=3).wire()
    {'keepCopies': 3}
    """

    model_config = ConfigDict(
        alias_generator=camel_case,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        validate_assignment=True,
        hide_input_in_errors=True,
        extra="ignore",
    )

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, /, **data: Any) -> None:
            """Create a model from its fields, in either spelling; raises UsageError for a name that is not a field."""
            known = type(self).__dict__.get(_ARGUMENTS)
            if known is None or not data.keys() <= known:
                _check_arguments(type(self), data)
            super().__init__(**data)

        # Without this mark of pydantic's, reading would go through the constructor.
        __init__.__pydantic_base_init__ = True

    def wire(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields that were set, in the API's spelling and types; `without` names fields to leave out, as in Python."""
        _note_changed_defaults(self, without)
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=set(without) or None)


def _check_arguments(model: type[BaseModel], given: Collection[str]) -> None:
    """Raise UsageError for an argument that the constructor of a model does not take."""
    # A model with its own constructor is also read through that constructor. The aliases of an incomplete model are not known yet.
    own = not getattr(model.__init__, "__pydantic_base_init__", False)
    if own or not model.__pydantic_complete__ or model.model_config.get("extra") == "allow":
        return
    known = set(model.model_fields)
    for field in model.model_fields.values():
        alias = field.validation_alias
        several = alias.choices if isinstance(alias, AliasChoices) else [alias]
        known.update(
            str(spelling.path[0] if isinstance(spelling, AliasPath) else spelling)
            for spelling in several
            if spelling is not None
        )
    setattr(model, _ARGUMENTS, frozenset(known))
    if unknown := set(given) - known:
        raise UsageError(_misspelt(model, unknown))


def _misspelt(model: type[BaseModel], unknown: Collection[str]) -> str:
    name = min(unknown)
    near = get_close_matches(name, model.model_fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"its fields: {', '.join(model.model_fields) or 'none'}"
    return f"{model.__name__} has no field {name!r}; {hint}"


def _note_changed_defaults(model: BaseModel, without: Collection[str] = ()) -> None:
    """Mark fields that were changed in place as set, because pydantic itself notices assignments only."""
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
    """Return whether a value is no longer its default; a field that was set to the value of its default counts as changed."""
    if not isinstance(value, BaseModel):
        return bool(value != default)
    before = default.model_fields_set if isinstance(default, BaseModel) else set()
    return value.model_fields_set != before or (isinstance(default, BaseModel) and value != default)


def _models_in(value: Any) -> Iterable[BaseModel]:
    if isinstance(value, BaseModel):
        return (value,)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [item for item in items if type(item) not in _PLAIN and isinstance(item, BaseModel)]
