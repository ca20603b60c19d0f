"""Carries out one task against the API server, and returns its result.

Guarantees: objects are written by server-side apply without force, so a field of another manager is never overwritten: it becomes the
outcome `conflict`, with manager and path. An object that no control plane manages is neither changed nor deleted. A deletion has the uid of
the journal as a precondition, so a repeated deletion spares a new object of the same name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from konverge.client import Client
from konverge.errors import (
    ApiError,
    ApplyConflict,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KonvergeError,
    NotFound,
    NotServed,
)
from konverge.objects import Metadata, Object
from konverge.reconcilers.clusters.events import managed
from konverge.reconcilers.clusters.jobs import Task, Verb
from konverge.reconcilers.clusters.protocol import FieldOwner, JobResult, ObjectIdentity, Outcome
from konverge.reconcilers.clusters.words import Annotation, JobReason
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = ["Executor", "final_result"]

_MOST_MESSAGE = 1024
_FINAL: tuple[tuple[type[KonvergeError], str], ...] = (
    (Invalid, JobReason.INVALID),
    (BadRequest, JobReason.INVALID),
    (Forbidden, JobReason.FORBIDDEN),
    (NotFound, JobReason.NAMESPACE_MISSING),
    (NotServed, JobReason.KIND_NOT_SERVED),
)
"""Errors that a retry would repeat, and the reasons of their results."""


def final_result(task: Task, error: KonvergeError, now: datetime) -> JobResult | None:
    """Return the result of a task that failed for good; None if it is to be tried again."""
    if isinstance(error, ApplyConflict):
        owners = tuple(FieldOwner(manager=conflict.manager, path=conflict.field) for conflict in error.conflicts)
        names = ", ".join(sorted({owner.manager for owner in owners}))
        return _result(
            task,
            Outcome.CONFLICT,
            JobReason.FIELD_CONFLICT,
            now,
            message=f"fields belong to {names}; nothing was changed",
            conflicts=owners,
        )
    for kind, reason in _FINAL:
        if isinstance(error, kind):
            return _result(task, Outcome.FAILED, reason, now, message=_words(error))
    return None


def _words(error: KonvergeError) -> str:
    """Return the reportable part of an error: rejected fields by their names, because texts of the API server quote their values."""
    if isinstance(error, Invalid) and error.causes:
        return f"the API server refused: {', '.join(sorted({field for field, _ in error.causes}))}"[:_MOST_MESSAGE]
    if isinstance(error, Forbidden | NotFound | NotServed):
        return str(error)[:_MOST_MESSAGE]
    return f"the API server refused it ({error.status if isinstance(error, ApiError) else type(error).__name__})"


def _result(
    task: Task,
    outcome: Outcome,
    reason: str,
    now: datetime,
    *,
    message: str = "",
    conflicts: tuple[FieldOwner, ...] = (),
    about: Metadata | None = None,
) -> JobResult:
    reference = task.reference
    if reference is not None and about is not None:
        reference = ObjectIdentity.model_validate(
            {**reference.model_dump(), "uid": about.uid, "generation": about.generation}
        )
    return JobResult(
        idempotency_key=task.job.idempotency_key,
        outcome=outcome,
        reason=reason,
        message=message,
        conflicts=conflicts,
        object=reference,
        finished_at=now,
    )


class Executor:
    """Carries out tasks for one cluster as one field manager."""

    def __init__(
        self,
        client: Client,
        *,
        manager: str,
        cluster_id: str,
        rotate: Callable[[str], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._manager = manager
        self._cluster_id = cluster_id
        self._rotate = rotate
        self._now = now

    async def run(self, task: Task, *, uid: str, note: Callable[[str], Awaitable[None]], resumed: bool) -> JobResult:
        """Carry out a task. `uid` is the uid that `note` recorded before a crash, `resumed` whether an earlier process may have begun it.

        Raises errors of the API that a retry may resolve (`final_result` returns None for them).
        """
        if task.verb is Verb.ROTATE:
            await self._rotate(f"job:{task.job.idempotency_key}")
            return _result(task, Outcome.SUCCEEDED, JobReason.ROTATED, self._now())
        if task.verb is Verb.DELETE:
            return await self._delete(task, uid, note)
        return await self._apply(task, resumed=resumed)

    async def _find(self, task: Task) -> Object | None:
        assert task.kind is not None
        return await self._client.find(task.kind, task.name, task.namespace)

    def _foreign(self, task: Task, stored: Object) -> JobResult | None:
        metadata = stored.metadata
        if managed(metadata) and metadata.label(ControlPlaneLabel.CLUSTER_ID, self._cluster_id) == self._cluster_id:
            return None
        return _result(
            task,
            Outcome.FAILED,
            JobReason.FOREIGN_OBJECT,
            self._now(),
            message=f"{stored.kind_name} {metadata.path} exists and was not made by this control plane; label it "
            f"{ControlPlaneLabel.MANAGED_BY}={ControlPlaneLabel.CONTROL_PLANE} to hand it over",
        )

    def _older(self, task: Task, stored: Object) -> JobResult | None:
        """Return the refusal of a job of an older generation than the object's: a delayed job must not undo a younger job."""
        applied = stored.metadata.annotation(Annotation.JOB_GENERATION)
        if not task.is_older_than(applied):
            return None
        return _result(
            task,
            Outcome.FAILED,
            JobReason.OLDER_GENERATION,
            self._now(),
            message=f"{stored.kind_name} {stored.metadata.path} has generation {applied}, and this job is of generation {task.generation}",
        )

    async def _apply(self, task: Task, *, resumed: bool) -> JobResult:
        assert task.kind is not None
        assert task.body is not None
        before = await self._find(task)
        if before is not None:
            if (foreign := self._foreign(task, before)) is not None:
                return foreign
            if (older := self._older(task, before)) is not None:
                return older
            if before.metadata.deleting:
                words = (
                    f"{before.kind_name} {before.metadata.path} is being deleted; send the job again when it is gone"
                )
                return _result(task, Outcome.FAILED, JobReason.BEING_DELETED, self._now(), message=words)
        stored = await self._client.apply(task.kind, task.body, manager=self._manager)
        same = before is not None and before.metadata.resource_version == stored.metadata.resource_version
        if same and not resumed:
            return _result(task, Outcome.NOOP, JobReason.UNCHANGED, self._now(), about=stored.metadata)
        return _result(task, Outcome.SUCCEEDED, JobReason.APPLIED, self._now(), about=stored.metadata)

    async def _delete(self, task: Task, uid: str, note: Callable[[str], Awaitable[None]]) -> JobResult:
        assert task.kind is not None
        stored = await self._find(task)
        if not uid:
            if stored is None:
                return _result(task, Outcome.NOOP, JobReason.ABSENT, self._now())
            if (refused := self._foreign(task, stored) or self._older(task, stored)) is not None:
                return refused
            uid = stored.metadata.uid
            await note(uid)
        if stored is not None and stored.metadata.uid == uid and not stored.metadata.deleting:
            try:
                await self._client.delete(task.kind, task.name, task.namespace, uid=uid)
            except Conflict:
                left = await self._find(task)
                if left is not None and left.metadata.uid == uid and not left.metadata.deleting:
                    raise
                # The object was deleted, though a new object may have its name.
        result = _result(task, Outcome.SUCCEEDED, JobReason.DELETED, self._now())
        assert result.object is not None
        return result.model_copy(update={"object": result.object.model_copy(update={"uid": uid})})
