"""The uninstall of a deleted ApplicationInstance, in order, one step at a time.

Rules (docs/reference/apps.md#uninstall, docs/reference/flux.md#traps): the HelmRelease is deleted first, the sources after its deletion.
helm-controller drops the finalizer of a suspended HelmRelease without uninstalling, which orphans every workload. So a suspended
HelmRelease is resumed first, and deleted with the version and uid of that response, so that it cannot be suspended in between. An uninstall
has no time limit: after the patience Stalled names the remedy, and the finalizer stays, because dropping it would orphan the workloads too.

Guarantees: pure; each step is decided by the present state, so it can be repeated after any crash. Objects that the instance does not
control are never touched. It needs no spec: an instance that no longer decodes is uninstalled too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339
from konverge.objects import Object
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.observe import RemainingChildren, controls
from konverge.reconcilers.apps.report import ConditionReport
from konverge.reconcilers.apps.words import (
    Blocked,
    Degraded,
    Deleting,
    Flux,
    Ready,
    Reconciling,
    Stalled,
    Suspended,
    Type,
)
from konverge.reconcilers.shared.helm_release.facts import ConditionValue
from konverge.reconcilers.shared.helm_release.freshness import FluxRelease
from konverge.reconcilers.shared.helm_release.messages import failed as failed_release

__all__ = ["UninstallStep", "next_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UninstallStep:
    """One step: release to resume, objects to delete, conditions to set; `done` when no child is left.

    `orphan` is a release to delete without an uninstall.
    """

    resume: Object | None = None
    orphan: Object | None = None
    delete: tuple[Object, ...] = ()
    report: ConditionReport | None = None
    wait: timedelta = timedelta(0)
    done: bool = False


def _past_patience(child: Object, now: datetime, patience: timedelta) -> timedelta | None:
    """Return the time since a deletion if it exceeds the patience, else None."""
    start = child.metadata.deletion_timestamp
    waited = now - from_rfc3339(start) if start else timedelta(0)
    return waited if waited >= patience else None


def _wait(children: tuple[Object, ...], now: datetime, patience: timedelta) -> timedelta:
    """Return the time to requeue after: until the patience with a deletion ends, at least a second."""
    starts = [
        from_rfc3339(child.metadata.deletion_timestamp) for child in children if child.metadata.deletion_timestamp
    ]
    rests = [start + patience - now for start in starts if start + patience > now]
    return max(min(rests, default=patience), timedelta(seconds=1))


def _report(
    deleting: str, message: str, *, degraded: ConditionValue | None = None, stalled: ConditionValue | None = None
) -> ConditionReport:
    conditions = {
        Type.READY: ConditionValue(False, Ready.DELETING, message),
        Type.RECONCILING: ConditionValue(True, Reconciling.UNINSTALLING),
        Type.DELETING: ConditionValue(True, deleting, message),
        Type.SUSPENDED: ConditionValue(False, Suspended.ACTIVE),
        Type.BLOCKED: ConditionValue(False, Blocked.UNBLOCKED),
    }
    if degraded is not None:
        conditions[Type.DEGRADED] = degraded
    if stalled is not None:
        # Stalled and Reconciling exclude each other (kstatus).
        conditions[Type.RECONCILING] = ConditionValue(False, Reconciling.UNINSTALLING)
        conditions[Type.STALLED] = stalled
    return ConditionReport(conditions, () if stalled is not None else (Type.STALLED,))


def _uninstalling(release: Object, now: datetime, patience: timedelta) -> UninstallStep:
    seen = FluxRelease.of(release)
    failure = seen.find(Flux.RELEASED)
    failed = failure is not None and failure.is_false and failure.reason == Flux.UNINSTALL_FAILED
    upstream = failed_release(failure) if failed else ""
    waited = _past_patience(release, now, patience)
    message = f"Flux uninstalls HelmRelease {release.name}" + (f"; {upstream}" if upstream else "")
    late = None if waited is None else messages.uninstall_overdue(release.name, patience, upstream)
    return UninstallStep(
        resume=release if seen.suspended else None,
        delete=() if seen.deleting else (release,),
        report=_report(
            Deleting.UNINSTALLING,
            late or message,
            degraded=ConditionValue(True, Degraded.HELM_RELEASE_DEGRADED, upstream) if failed else None,
            stalled=None if late is None else ConditionValue(True, Stalled.UNINSTALL_TIMEOUT, late),
        ),
        wait=_wait((release,), now, patience),
    )


def _orphaning(release: Object, keeper: str, now: datetime, patience: timedelta) -> UninstallStep:
    """Delete the HelmRelease without an uninstall: the workload belongs to another instance.

    A suspended release under deletion already waits for Flux. Resumed, it would be uninstalled after all.
    """
    message = messages.deleted_without_uninstall(release.name, keeper)
    waits = release.metadata.deleting and FluxRelease.of(release).suspended
    return UninstallStep(
        orphan=None if waits else release,
        report=_report(Deleting.UNINSTALLING, message),
        wait=_wait((release,), now, patience),
    )


def _deleting_sources(sources: tuple[Object, ...], now: datetime, patience: timedelta) -> UninstallStep:
    names = tuple(f"{source.kind_name} {source.name}" for source in sources)
    late = [source for source in sources if _past_patience(source, now, patience) is not None]
    message = messages.sources_overdue(names, patience) if late else messages.waiting_for_children(names)
    return UninstallStep(
        delete=tuple(source for source in sources if not source.metadata.deleting),
        report=_report(
            Deleting.WAITING_FOR_CHILD_RESOURCES,
            message,
            stalled=ConditionValue(True, Stalled.UNINSTALL_TIMEOUT, message) if late else None,
        ),
        wait=_wait(sources, now, patience),
    )


def next_step(left: RemainingChildren, now: datetime, patience: timedelta) -> UninstallStep:
    """Return the next step, decided only by the present state."""
    release = left.owned(left.release)
    if release is not None and left.keeper:
        return _orphaning(release, left.keeper, now, patience)
    if release is not None:
        return _uninstalling(release, now, patience)
    sources = tuple(source for source in left.sources if controls(left.owner, source))
    return _deleting_sources(sources, now, patience) if sources else UninstallStep(done=True)
