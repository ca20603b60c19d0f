"""The pause of one object: its cause, and the condition that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from konverge.objects import Metadata
from konverge.runtime.builder.pause import Pausable, pauses
from konverge.runtime.cache.readers import Caches
from konverge.runtime.reconcile.status import StatusEditor
from konverge.words import ConditionType, Reason

__all__ = ["Pause", "Pauses"]

_NOT_PAUSED: Final = "it is reconciled"


class Pause(NamedTuple):
    """Why an object is not reconciled: the reason and the message of its condition."""

    reason: str
    message: str


class Pauses:
    """The pauses of one controller's objects. `namespace_labels` returns the labels of a namespace that may pause its objects."""

    def __init__(
        self,
        by: Pausable,
        conditions: tuple[str, ...] | None,
        caches: Caches,
        namespace_labels: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._by = by
        self._is_shown = ConditionType.PAUSED in (conditions or ())
        self.observing = by.observing
        """Whether the reconciler is called for paused objects."""
        self._caches = caches
        self._namespace_labels = namespace_labels

    def of(self, metadata: Metadata) -> Pause | None:
        """Return the pause of an object, None if it is reconciled, or finalized."""
        by = self._by
        if by.rule is not None:
            why = "" if metadata.deleting and not by.deletion else by.rule(metadata, self._caches)
            return Pause(Reason.PAUSED, why) if why else None

        def holds(value: str | None) -> bool:
            return pauses(value, deleted=metadata.deleting, deletion=by.deletion)

        if holds((metadata.annotations or {}).get(by.name)):
            return Pause(Reason.PAUSED_BY_ANNOTATION, f"the annotation {by.name} is set: remove it to continue")
        if by.namespaces and holds(self._namespace_labels(metadata.namespace).get(by.name)):
            message = f"the label {by.name} of namespace {metadata.namespace} is set: remove it to continue"
            return Pause(Reason.PAUSED_BY_NAMESPACE, message)
        return None

    def show(self, editor: StatusEditor[Any], pause: Pause | None) -> None:
        """Set the condition `Paused`, if the kind declares it."""
        if not self._is_shown:
            return
        if pause is not None:
            editor.set_condition(ConditionType.PAUSED, True, pause.reason, pause.message)
        else:
            editor.set_condition(ConditionType.PAUSED, False, Reason.NOT_PAUSED, _NOT_PAUSED)
