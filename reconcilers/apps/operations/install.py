"""The controller of Operations: its watches and the RBAC rules that they need.

The kinds of engines are optional: without one its Operations are Blocked/DependencyMissing, and its appearance enqueues them.
"""

from __future__ import annotations

from typing import Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.rbac import plural_of
from konverge.reconcilers.apps.kinds import NAMESPACE, SECRET, SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.engines.job_status import JOB
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow
from konverge.reconcilers.apps.operations.engines.workflow import WORKFLOW
from konverge.reconcilers.apps.operations.indexes import (
    ACTIVE,
    ENDED,
    WAITS_FOR,
    active_by_target,
    affects_others,
    ended_by_target,
    operations_on,
    others_of,
    waits_for,
    wakes_for,
)
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.metrics import OperationMetrics, counted
from konverge.reconcilers.apps.operations.pods import EVENT, POD
from konverge.reconcilers.apps.operations.reconciler import OperationReconciler
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.turns import LEASE
from konverge.reconcilers.apps.operations.words import CONTROLLER, FINALIZER, BlockedReason, OpCondition, OpLabel
from konverge.reconcilers.apps.settings import Settings
from konverge.runtime import Controller, Rule

__all__ = ["chosen_rows", "controller"]

_CONCURRENCY: Final = 4
"""Operations that are reconciled at once: each start reads and writes the Lease of its namespace."""


def chosen_rows(
    settings: OperationSettings, rows: tuple[EngineRow, ...] = ROWS, *, watch_secrets: bool = True
) -> tuple[EngineRow, ...]:
    """Return the rows of the engines that these settings allow."""
    return tuple(
        row for row in rows if row.engine.name in settings.engines and (watch_secrets or SECRET not in row.engine.gets)
    )


def controller(
    settings: OperationSettings | None = None,
    *,
    cluster_id: str = "",
    rows: tuple[EngineRow, ...] = ROWS,
    watch_secrets: bool = True,
    secret_namespaces: tuple[str, ...] = (),
    namespace: str = "",
    metrics: OperationMetrics | None = None,
    instances: Settings | None = None,
) -> Controller[Operation]:
    """Return the description of the controller.

    `watch_secrets` and `secret_namespaces` are the family's settings: engines that read Secrets are left out, or have the right only there.
    `namespace` is the operator's own, the only namespace for its Leases. `instances` are the settings that check edits of targets.
    """
    chosen = OperationSettings() if settings is None else settings
    rows = chosen_rows(chosen, rows, watch_secrets=watch_secrets)
    described = (
        counted(Controller.of(Operation))
        .named(CONTROLLER)
        .finalizer(FINALIZER)
        .invalid_as(OpCondition.BLOCKED, BlockedReason.VALIDATION_FAILED)
        .counts_conditions()
        # Shared although Operations of one target exclude each other: the Lease of their namespace decides that, by compare-and-swap.
        .sharded()
        .watches(VIEW, to=others_of(ended=chosen.history_limit is not None), when=affects_others)
        .indexes(VIEW, ACTIVE, by=active_by_target)
        .indexes(VIEW, ENDED, by=ended_by_target)
        .indexes(VIEW, WAITS_FOR, by=waits_for(rows, chosen))
        .watches(INSTANCE, to=operations_on)
    )
    created = _kinds(rows, created=True)
    for kind in sorted({*created, *_kinds(rows, created=False)} - {INSTANCE}, key=lambda kind: kind.group_kind):
        only_ours = "" if kind in _kinds(rows, created=False) else OpLabel.OPERATION
        described = described.watches(
            kind, to=wakes_for(kind, rows, chosen.velero_namespace), optional=True, labels=only_ours, unlisted=True
        )
    gets = {kind for row in rows for kind in row.engine.gets}
    others = sorted({INSTANCE, *created}, key=lambda kind: kind.group_kind)
    described = described.reads_live(Operation, *others)
    if chosen.namespace_policy:
        described = described.needs(Rule(NAMESPACE.group, (plural_of(NAMESPACE),), ("get",)))
    if JOB in created or WORKFLOW in created:
        described = described.needs(Rule(SERVICE_ACCOUNT.group, (plural_of(SERVICE_ACCOUNT),), ("get",)))
    if JOB in created:
        described = described.needs(Rule(POD.group, (plural_of(EVENT), plural_of(POD)), ("list",)))
    return (
        described.needs(
            Rule(LEASE.group, (plural_of(LEASE),), ("get", "create", "update"), namespace=namespace),
            Rule(VIEW.group, (plural_of(VIEW),), ("delete",)),
            Rule(VIEW.group, (f"{plural_of(VIEW)}/finalizers",), ("update",)),
            *(
                Rule(kind.group, (plural_of(kind),), ("get",), namespace=place)
                for kind in sorted(gets, key=lambda kind: kind.group_kind)
                for place in (secret_namespaces if kind == SECRET and secret_namespaces else ("",))
            ),
            *(
                Rule(kind.group, (plural_of(kind),), ("patch",) if kind == INSTANCE else ("create", "patch", "delete"))
                for kind in sorted(created, key=lambda kind: kind.group_kind)
            ),
        )
        .with_(concurrency=_CONCURRENCY)
        .reconciled_by(
            OperationReconciler(
                chosen, cluster_id=cluster_id, namespace=namespace, rows=rows, metrics=metrics, instances=instances
            )
        )
    )


def _kinds(rows: tuple[EngineRow, ...], *, created: bool) -> set[Kind[Object]]:
    return {kind for row in rows for kind in (row.engine.makes if created else row.engine.reads)}
