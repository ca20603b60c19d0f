"""Whether a target is Ready, has settled in a failure, or is in transition.

An Upgrade and a Restore repair a target that has failed, so they wait only while the target is in transition: a rollout runs, or the spec
is newer than the status. A failure that Flux repeats (a chart that cannot be fetched, a wrong value) has settled as well: only another spec
ends it.

Guarantees: pure. Every transition that the instance reports ends: by Ready, by a failure, or by Stalled at the progress deadline.
"""

from __future__ import annotations

from typing import Final

from konverge.conditions import Condition
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.texts import excerpt
from konverge.reconcilers.apps.words import Ready, Type

__all__ = ["describe", "is_in_transition", "is_ready"]

_ROLLOUTS: Final = frozenset({Ready.INSTALLING, Ready.UPGRADING, Ready.HELM_RELEASE_MISSING, Ready.DELETING})
"""Reasons of Ready=False of a rollout without a result."""
_LONGEST: Final = 300
"""The most characters of the target's own message."""


def _is_observed(instance: Object) -> bool:
    return bool(instance.get("status", "observedGeneration") == instance.metadata.generation)


def is_ready(instance: Object) -> bool:
    """Tell whether the target is Ready for its present spec."""
    ready = instance.find_condition(Type.READY)
    return ready is not None and ready.is_true and _is_observed(instance)


def is_in_transition(instance: Object) -> bool:
    """Tell whether the state of the target is still open: neither Ready nor a failure."""
    ready, reconciling = instance.find_condition(Type.READY), instance.find_condition(Type.RECONCILING)
    if ready is None or not _is_observed(instance):
        return True
    if ready.is_true or _is_true(instance.find_condition(Type.STALLED)):
        return False
    if reconciling is not None and reconciling.is_false:
        return False  # at rest: suspended by hand, or held back by another manager
    return not ready.is_false or ready.reason in _ROLLOUTS


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.is_true


def describe(instance: Object) -> str:
    """Return the state of the target for a message, with the reason that the target reports."""
    ready = instance.find_condition(Type.READY)
    if ready is None:
        return "has no condition Ready yet"
    if not _is_observed(instance):
        return "was changed and has not been reconciled since"
    message = excerpt(ready.message, _LONGEST)
    return f"has Ready={ready.status}/{ready.reason}" + (f" ({message})" if message else "")
