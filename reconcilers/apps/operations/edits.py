"""The spec of a target after an edit, checked before the edit is sent.

An edit that the instance reconciler refuses would block the instance, and with it each later Operation. So the merged spec is checked by
the rules of the instance itself: by the reconciler before the edit, and by the webhook.

Guarantees: pure; a message quotes no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import InvalidObject
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import Edit
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import CheckInput, edit_problems

__all__ = ["edit_refusal", "merge_patch"]


def merge_patch(stored: Any, patch: Any) -> Any:
    """Return a value after a JSON merge patch (RFC 7386), as the API server applies it.

    >>> merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "d": {"e": None}})
    {'a': {'c': 2}, 'd': {}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(stored) if isinstance(stored, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _problems(data: Mapping[str, Any], settings: Settings) -> list[str]:
    try:
        instance = ApplicationInstance.decode(dict(data))
    except InvalidObject as error:
        return [f"{error.field}: {error.problem}"]
    return edit_problems(CheckInput(instance=instance, settings=settings))


def edit_refusal(instance: Object, edit: Edit, settings: Settings, *, new_only: bool = False) -> str:
    """Return why the edited instance would be refused, "" if it would not; `new_only` leaves out problems that it already has."""
    before = _problems(instance.to_dict(), settings) if new_only else []
    after = _problems(merge_patch(instance.to_dict(), edit.patch), settings)
    problems = [problem for problem in after if problem not in before]
    if not problems:
        return ""
    return f"nothing was edited, because ApplicationInstance {instance.name} would be refused: {'; '.join(problems)}"
