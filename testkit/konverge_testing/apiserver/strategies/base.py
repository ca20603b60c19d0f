"""`BuiltInStrategy`: a built-in kind as tables of defaults and rules, with hooks for the rest."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.resources import Strategy
from konverge_testing.apiserver.strategies.defaulting import Defaults, Tree
from konverge_testing.apiserver.strategies.errors import Data, Errors, immutable
from konverge_testing.apiserver.strategies.rules import NO_RULES, Table

__all__ = ["BuiltInStrategy", "restore", "value_at"]

_SURPRISING: Final = "this is used in Pod names and hostnames, which can result in surprising behavior"


def value_at(data: Data, path: str) -> Any:
    """Return the value at a dotted path, None if the path ends before."""
    value: Any = data
    for name in path.split("."):
        value = (value or {}).get(name)
    return value


def restore(new: Data, old: Data, *fields: str) -> None:
    """Restore the old values of fields of an object, in place."""
    for name in fields:
        if name in old:
            new[name] = old[name]
        else:
            new.pop(name, None)


class BuiltInStrategy(Strategy):
    """A built-in kind: each hook of `Strategy` calls a private method, which a kind overrides.

    metadata.generation is kept only with `generation`; with `has_status`, status is cleared at creation and kept at updates.
    """

    generation = False
    has_status = False
    empty_status: Mapping[str, Any] = {}
    """The status of a new object: Go's encoding of an empty struct."""

    name_rule = "subdomain"
    """The rule for names: a key of `names.NAME_RULES`."""

    named_label = False
    """Whether a name that is not a DNS label causes a warning, since it becomes part of the names of pods."""

    defaults: Defaults = ()
    tree = Tree(())
    """The defaults, compiled to a tree."""

    rules: Table = NO_RULES
    """The rules of an object, new or changed."""

    status_rules: Table = NO_RULES
    """The rules of an object whose status a client writes."""

    frozen: tuple[str, ...] = ()
    """Paths of fields that never change, in the order of their errors; `path as path` shows another path in the error."""

    selectable: Mapping[str, Any] = {}
    """Field-selector fields beyond metadata.name and metadata.namespace, with the value of an absent field."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.has_status and "reset_fields" not in cls.__dict__:
            cls.reset_fields = {"": (("status",),), "status": (("spec",),)}
        if "defaults" in cls.__dict__:
            cls.tree = Tree(cls.defaults)

    def default(self, new: Data) -> None:
        """Set the defaults that the schema does not contain."""
        self._default(new)

    def prepare_create(self, new: Data) -> None:
        """Clear and set the fields that a client cannot set."""
        self._create(new)

    def prepare_update(self, new: Data, old: Data) -> None:
        """Restore the fields that an update through the main resource cannot change."""
        self._update(new, old)

    def prepare_status(self, new: Data, old: Data) -> None:
        """Restore the fields that an update through `/status` cannot change."""
        self._status(new, old)

    def intent_changed(self, new: Data, old: Data) -> bool:
        """Return whether metadata.generation counts an update."""
        return self._intent_changed(new, old)

    def validate(self, new: Data, old: Data | None, subresource: str = "") -> Errors:
        """Return the errors beyond the schema; metadata is checked elsewhere."""
        return self._validate(new, old, subresource)

    def warnings(self, new: Data, old: Data | None) -> list[str]:
        """Return the warnings for the client."""
        return self._warnings(new, old)

    def field_labels(self, object_: Data) -> dict[str, str]:
        """Return the field-selector fields beyond metadata.name and metadata.namespace."""
        values = {path: value_at(object_, path) or zero for path, zero in self.selectable.items()}
        return {
            path: str(value).lower() if isinstance(value, bool) else str(value) for path, value in values.items()
        } | self._labels(object_)

    def _default(self, new: Data) -> None:
        self.tree.fill(new)

    def _create(self, new: Data) -> None:
        if self.has_status:
            new["status"] = copy.deepcopy(dict(self.empty_status))

    def _update(self, new: Data, old: Data) -> None:
        if self.has_status:
            restore(new, old, "status")

    def _status(self, new: Data, old: Data) -> None:
        super().prepare_status(new, old)

    def _intent_changed(self, new: Data, old: Data) -> bool:
        return bool(new.get("spec") != old.get("spec"))

    def _validate(self, new: Data, old: Data | None, subresource: str) -> Errors:
        return self._status_errors(new, old or {}) if subresource == "status" else self._errors(new, old)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        return self.rules(new, "") if old is None else self.rules(new, "") + self._frozen(new, old)

    def _frozen(self, new: Data, old: Data) -> Errors:
        errors: Errors = []
        for row in self.frozen:
            path, _, shown = row.partition(" as ")
            errors += immutable(shown or path, value_at(new, path), value_at(old, path))
        return errors

    def _status_errors(self, new: Data, _old: Data) -> Errors:
        return self.status_rules(new, "")

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        name = new["metadata"].get("name", "")
        if not self.named_label or old is not None or not (problems := names.dns1123_label(name)):
            return []
        return [f"metadata.name: {_SURPRISING}; a DNS label is recommended: [{' '.join(problems)}]"]

    def _labels(self, _object: Data) -> dict[str, str]:
        return {}
