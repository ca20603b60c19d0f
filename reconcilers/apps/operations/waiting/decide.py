"""The order of preconditions of an Operation, before it holds its target.

TargetExists, TargetReady or TargetSettled (`readiness.py`), CapabilityAdvertised, approval, NoConflictingOperation, then the needs of the
engine (its CustomResourceDefinition, related objects, Secrets), then the policy of the namespace and the maintenance window (`policy.py`).
The first that does not hold is reported.

Guarantees: pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, EngineState, Observation, Refused
from konverge.reconcilers.apps.operations.engines.registry import VERBS
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.approval import lacking_approval
from konverge.reconcilers.apps.operations.waiting.conflicts import Contestant, blocker, first_in_line, is_behind
from konverge.reconcilers.apps.operations.waiting.observe import ObservedNeeds, ObservedTarget
from konverge.reconcilers.apps.operations.waiting.policy import check_policy, first_at_opening
from konverge.reconcilers.apps.operations.waiting.readiness import describe, is_in_transition, is_ready
from konverge.reconcilers.apps.operations.words import AcceptedReason, BlockedReason, FailedReason, OpAnnotation

__all__ = ["check_needs", "check_target", "check_turn", "conflict"]


def check_target(
    operation: Operation, instance: Object | None, settings: OperationSettings, cluster: str, now: datetime
) -> OpPlan | None:
    """Return the plan of an Operation whose target does not let it start, None if it does.

    A missing approval is reported in addition to any other blockade: a claim can be written while the target is repaired.
    """
    lacking = lacking_approval(operation, settings, cluster, now)
    obstacle = _obstacle(operation, instance, settings)
    if obstacle is None:
        return report.waiting(EngineBlocked(BlockedReason.AWAITING_APPROVAL, lacking)) if lacking else None
    message = f"{obstacle.message}; besides, {lacking}" if lacking else obstacle.message
    blocked = EngineBlocked(BlockedReason.TARGET_NOT_READY, message)
    return report.waiting(blocked, not_accepted=obstacle.not_accepted)


class _Obstacle(NamedTuple):
    """Why the target does not let an Operation start; `not_accepted` is the reason of Accepted=False."""

    message: str
    not_accepted: str = ""


def _obstacle(operation: Operation, instance: Object | None, settings: OperationSettings) -> _Obstacle | None:
    spec = operation.spec
    name = f"ApplicationInstance {spec.target_ref.name}"
    if instance is None:
        message = f"{name} does not exist in this namespace; create it, or delete the Operation"
        return _Obstacle(message, AcceptedReason.TARGET_NOT_FOUND)
    if instance.metadata.deleting:
        return _Obstacle(
            f"{name} is being deleted ({describe(instance)}); delete the Operation, or create {name} again"
        )
    if spec.type in settings.ready_types and not is_ready(instance):
        return _Obstacle(f"{name} {describe(instance)}; mend it, and the Operation starts as soon as it is Ready")
    if spec.type in settings.settled_types and is_in_transition(instance):
        return _Obstacle(f"{name} {describe(instance)}; the Operation starts as soon as it is Ready or has failed")
    wanted = f"{OpAnnotation.CAPABILITY}{VERBS[spec.type]}"
    if settings.require_capability and spec.engine not in _engines(instance.metadata.annotation(wanted)):
        message = f"{name} does not offer this: annotate it with {wanted}={spec.engine}"
        return _Obstacle(message, AcceptedReason.CAPABILITY_MISSING)
    return None


def _engines(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(","))


def conflict(name: str, wait: timedelta | None = None) -> OpPlan:
    """Return the plan of an Operation that another Operation excludes; the end of the other enqueues this Operation.

    `name` is "" if older Operations wait as well: with the name of the running Operation, each start would write the status of every
    Operation in the queue.
    """
    message = (
        f"waits until Operation {name} has ended" if name else "waits in line: older Operations of its target go first"
    )
    return report.waiting(
        EngineBlocked(BlockedReason.CONFLICTING_OPERATION, message),
        outcome=None if wait is None else RequeueAfter(wait),
    )


def check_turn(
    mine: Contestant, others: Iterable[Contestant], now: datetime, *, ended: Callable[[], Iterable[Contestant]] = tuple
) -> OpPlan | None:
    """Return the plan of an Operation that is not the next in the queue, by the cache; None if it is."""
    others = tuple(others)
    running, behind = blocker(mine, others), is_behind(mine, others)
    if running is not None:
        return conflict("" if behind else running.name)
    first = first_in_line(mine, others, now, ended=ended)
    return None if first is None else conflict("", first[1])


def check_needs(
    operation: Operation, observed: ObservedTarget, needs: ObservedNeeds, settings: OperationSettings, now: datetime
) -> OpPlan | None:
    """Return the plan of an Operation that its engine, the policy of its namespace, or its maintenance window holds back, else None."""
    rendered = needs.rendered
    if isinstance(rendered, Refused):
        return _refused(rendered, operation, now)
    if isinstance(rendered, EngineBlocked):
        return report.waiting(rendered, outcome=RequeueAfter(LOOK_AGAIN))
    assert observed.instance is not None, "check_target requires a target"
    target = dict(observed.instance.metadata.annotations or {})
    permission = check_policy(operation, target, needs.namespace, settings, now)
    if permission.plan is not None:
        return permission.plan
    older = first_at_opening(observed.mine, observed.active(), permission.opened, now)
    return None if older is None else conflict(older[0].name, older[1])


def _refused(refused: Refused, operation: Operation, now: datetime) -> OpPlan:
    if refused.reason == FailedReason.VALIDATION_FAILED:
        return report.refused(AcceptedReason.VALIDATION_FAILED, refused.message, now)
    return report.ended(Observation(EngineState.FAILED, refused.reason, refused.message), operation.status, now)
