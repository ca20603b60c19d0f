"""The end of an ApplicationInstance: uninstall in order, step by step.

Rules (docs/reference/apps.md#uninstall, docs/reference/flux.md#traps): the HelmRelease goes first, the sources after it is gone. A
suspended HelmRelease that is deleted drops its finalizer without uninstalling, and every workload stays behind unseen; so it is resumed
first, and deleted with the version and uid of that very answer, so that nobody suspends it in between. The wait is bounded only in
patience: after it Stalled says what to do, and the finalizer stays, because dropping it silently would be that same loss.

Promises: pure; each step is decided by what is there now, so it can be repeated after any crash. What the instance does not control is
never touched. It needs no spec: an instance that no longer decodes is uninstalled too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.freshness import Release
from konverge.reconcilers.apps.observe import ours
from konverge.reconcilers.apps.report import Report
from konverge.reconcilers.apps.verdict import Say
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

__all__ = ["Left", "Step", "next_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of an instance under deletion, read live; None where there is none."""

    owner: Metadata
    release: Object | None = None
    sources: tuple[Object, ...] = ()
    keeper: str = ""
    """Another instance that keeps the Helm release of this one's HelmRelease, if there is one."""

    def owned(self, child: Object | None) -> Object | None:
        """Return the child where the instance controls it."""
        return child if ours(self.owner, child) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now: resume this release, delete these objects, say this; `done` when nothing is left.

    `let_go` is a release to delete without an uninstall.
    """

    resume: Object | None = None
    let_go: Object | None = None
    delete: tuple[Object, ...] = ()
    says: Report | None = None
    wait: timedelta = timedelta(0)
    done: bool = False


def _overdue(child: Object, now: datetime, patience: timedelta) -> timedelta | None:
    """For how long a deletion has lasted, where that is longer than patience allows."""
    start = child.metadata.deletion_timestamp
    waited = now - from_rfc3339(start) if start else timedelta(0)
    return waited if waited >= patience else None


def _rest(children: tuple[Object, ...], now: datetime, patience: timedelta) -> timedelta:
    """Until when time alone changes nothing; at least a second, at most the whole patience."""
    starts = [
        from_rfc3339(child.metadata.deletion_timestamp) for child in children if child.metadata.deletion_timestamp
    ]
    rests = [start + patience - now for start in starts if start + patience > now]
    return max(min(rests, default=patience), timedelta(seconds=1))


def _says(deleting: str, message: str, *, degraded: Say | None = None, stalled: Say | None = None) -> Report:
    says = {
        Type.READY: Say(False, Ready.DELETING, message),
        Type.RECONCILING: Say(True, Reconciling.UNINSTALLING),
        Type.DELETING: Say(True, deleting, message),
        Type.SUSPENDED: Say(False, Suspended.ACTIVE),
        Type.BLOCKED: Say(False, Blocked.UNBLOCKED),
    }
    if degraded is not None:
        says[Type.DEGRADED] = degraded
    if stalled is not None:
        # Stalled and Reconciling exclude each other (kstatus): what nobody moves any more is not in progress.
        says[Type.RECONCILING] = Say(False, Reconciling.UNINSTALLING)
        says[Type.STALLED] = stalled
    return Report(says, () if stalled is not None else (Type.STALLED,))


def _uninstalling(release: Object, now: datetime, patience: timedelta) -> Step:
    seen = Release.of(release)
    failure = seen.find(Flux.RELEASED)
    failed = failure is not None and failure.is_false and failure.reason == Flux.UNINSTALL_FAILED
    upstream = messages.failed(failure) if failed else ""
    waited = _overdue(release, now, patience)
    message = f"Flux uninstalls HelmRelease {release.name}" + (f"; {upstream}" if upstream else "")
    late = None if waited is None else messages.overdue(release.name, patience, upstream)
    return Step(
        resume=release if seen.suspended else None,
        delete=() if seen.deleting else (release,),
        says=_says(
            Deleting.UNINSTALLING,
            late or message,
            degraded=Say(True, Degraded.HELM_RELEASE_DEGRADED, upstream) if failed else None,
            stalled=None if late is None else Say(True, Stalled.UNINSTALL_TIMEOUT, late),
        ),
        wait=_rest((release,), now, patience),
    )


def _letting_go(release: Object, keeper: str, now: datetime, patience: timedelta) -> Step:
    """The workload is another instance's: the HelmRelease goes, and Flux uninstalls nothing."""
    message = messages.let_go(release.name, keeper)
    return Step(let_go=release, says=_says(Deleting.UNINSTALLING, message), wait=_rest((release,), now, patience))


def _clearing(sources: tuple[Object, ...], now: datetime, patience: timedelta) -> Step:
    names = tuple(f"{source.kind_name} {source.name}" for source in sources)
    late = [source for source in sources if _overdue(source, now, patience) is not None]
    message = messages.sources_overdue(names, patience) if late else messages.waiting_for_children(names)
    return Step(
        delete=tuple(source for source in sources if not source.metadata.deleting),
        says=_says(
            Deleting.WAITING_FOR_CHILD_RESOURCES,
            message,
            stalled=Say(True, Stalled.UNINSTALL_TIMEOUT, message) if late else None,
        ),
        wait=_rest(sources, now, patience),
    )


def next_step(left: Left, now: datetime, patience: timedelta) -> Step:
    """Return what to do next. Suspended or not, deleted by hand or not: it depends on what is there alone."""
    release = left.owned(left.release)
    if release is not None and left.keeper and not release.metadata.deleting:
        return _letting_go(release, left.keeper, now, patience)
    if release is not None:
        return _uninstalling(release, now, patience)
    sources = tuple(source for source in left.sources if ours(left.owner, source))
    return _clearing(sources, now, patience) if sources else Step(done=True)
