"""Reads a delivered job into a task, or into a refusal. Pure.

Guarantees: a task writes one object of the protocol's kinds, in an allowed namespace, for this cluster; everything else is a refusal
with a reason. Fields that only the API server or other controllers write (status, owner references, finalizers) are refused, and so are the
fields that people of this cluster use to limit or permit the work of the operator (`job_limits.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.clusters.batch import TOO_DEEP
from konverge.reconcilers.clusters.job_limits import Gates, written_approvals, written_words
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, APPLIED, OPERATION
from konverge.reconcilers.clusters.protocol import Job, JobResult, Malformed, ObjectIdentity, Outcome, read
from konverge.reconcilers.clusters.words import Annotation, Intent, JobReason
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = ["JobRefusal", "Task", "Verb", "read_job", "result_of"]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_GENERATION: Final = re.compile(r"(?P<kind>[^/@]+)/(?P<namespace>[^/@]+)/(?P<name>[^/@]+)@(?P<generation>[0-9]{1,18})")
_MOST_NAME: Final = 253
_MOST_NAMESPACE: Final = 63


class Verb(StrEnum):
    """The effect of a task."""

    APPLY = "apply"
    DELETE = "delete"
    ROTATE = "rotate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The request of a job."""

    job: Job
    verb: Verb
    kind: Kind[Object] | None = None
    namespace: str = ""
    name: str = ""
    body: Mapping[str, Any] | None = None
    """The object to apply."""

    def is_older_than(self, applied: str) -> bool:
        """Whether the object has the state of a younger job, by its annotation `applied`; False if that is empty or malformed."""
        return self.generation is not None and bool(_NUMBER.fullmatch(applied)) and int(applied) > self.generation

    @property
    def generation(self) -> int | None:
        """The generation in a key of the form `kind/namespace/name@generation` that names this object; None for another key."""
        match = _GENERATION.fullmatch(self.job.idempotency_key)
        if match is None or (match["namespace"], match["name"]) != (self.namespace, self.name):
            return None
        return int(match["generation"])

    @property
    def reference(self) -> ObjectIdentity | None:
        """The object that is written."""
        if self.kind is None:
            return None
        return ObjectIdentity(
            api_version=self.kind.api_version, kind=self.kind.kind, namespace=self.namespace, name=self.name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRefusal:
    """Why a job is not carried out. `job_id` is "" if not even that can be read: then there is nothing to reply to."""

    job_id: str
    key: str
    reason: str
    message: str
    outcome: Outcome = Outcome.FAILED


class _Refused(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_job(raw: Mapping[str, Any], gates: Gates, now: datetime, problem: str = "") -> Task | JobRefusal:
    """Return the task of a job, or why it is refused; `problem` is why it could not be read (`batch.py`)."""
    given, key = raw.get("id"), raw.get("idempotencyKey")
    job_id = given if isinstance(given, str) and _JOB_ID.fullmatch(given) else ""
    known_key = key if isinstance(key, str) and len(key) <= 512 else ""  # the limit of the model
    try:
        if problem:
            raise _Refused(JobReason.MALFORMED, problem)
        if _size(raw) > gates.most_bytes:
            raise _Refused(JobReason.TOO_LARGE, f"a job has at most {gates.most_bytes} bytes")
        job = read(Job, raw)
        if job.expires_at <= now:
            return JobRefusal(
                job_id=job.id,
                key=job.idempotency_key,
                reason=JobReason.EXPIRED,
                message="expired",
                outcome=Outcome.NOOP,
            )
        return _task(job, gates)
    except Malformed as error:
        return JobRefusal(job_id=job_id, key=known_key, reason=JobReason.MALFORMED, message=str(error))
    except _Refused as error:
        return JobRefusal(job_id=job_id, key=known_key, reason=error.reason, message=str(error))


def _size(raw: Mapping[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(raw))
    except RecursionError:
        raise _Refused(JobReason.MALFORMED, TOO_DEEP) from None
    except UnicodeEncodeError:
        raise _Refused(JobReason.MALFORMED, "the job holds half of a surrogate pair, which cannot be stored") from None


def _task(job: Job, gates: Gates) -> Task:
    if job.cluster_id not in ("", gates.cluster_id):
        raise _Refused(JobReason.WRONG_CLUSTER, f"the job is for another cluster; this one is {gates.cluster_id}")
    if job.kind == "intent":
        return _intended(job, gates)
    body = _object(job.payload)
    kind = next(
        (kind for kind in APPLIED if (kind.api_version, kind.kind) == (body.get("apiVersion"), body.get("kind"))), None
    )
    if kind is None:
        raise _Refused(JobReason.KIND_REFUSED, f"jobs write {_kinds()} and no other kind")
    if job.kind == "delete":
        return _deletion(job, kind, body["metadata"], gates)
    return _application(job, kind, body, gates)


def _kinds() -> str:
    return " and ".join(f"{kind.kind} ({kind.api_version})" for kind in APPLIED)


def _intended(job: Job, gates: Gates) -> Task:
    intent, payload = job.payload.get("intent"), job.payload
    if intent == Intent.ROTATE:
        return Task(job=job, verb=Verb.ROTATE)
    metadata: dict[str, Any] = {
        name: payload[name] for name in ("name", "namespace", "labels", "annotations") if name in payload
    }
    if intent == Intent.DELETE:
        return _deletion(job, APPLICATION_INSTANCE, metadata, gates)
    if intent == Intent.OPERATION:
        # One request is one Operation: the same key gives the same name at each delivery.
        metadata.setdefault("name", f"pull-{hashlib.sha256(job.idempotency_key.encode()).hexdigest()[:20]}")
        return _application(job, OPERATION, {"metadata": metadata, "spec": payload.get("spec")}, gates)
    if intent == Intent.ENSURE:
        return _application(job, APPLICATION_INSTANCE, {"metadata": metadata, "spec": payload.get("spec")}, gates)
    raise _Refused(
        JobReason.MALFORMED,
        f"payload.intent: one of {Intent.ENSURE}, {Intent.OPERATION}, {Intent.DELETE}, {Intent.ROTATE}",
    )


def _object(payload: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(payload.get("metadata"), Mapping):
        raise _Refused(JobReason.MALFORMED, "payload.metadata: give the object's name and namespace")
    return dict(payload)


def _place(metadata: Mapping[str, Any], gates: Gates) -> tuple[str, str]:
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or len(name) > _MOST_NAME or not _NAME.fullmatch(name):
        raise _Refused(JobReason.MALFORMED, "the name of the object: lower case letters, digits, dashes and dots")
    if not isinstance(namespace, str) or len(namespace) > _MOST_NAMESPACE or not _NAMESPACE.fullmatch(namespace):
        raise _Refused(JobReason.MALFORMED, "the namespace of the object: lower case letters, digits and dashes")
    _check_namespace(namespace, gates)
    return namespace, name


def _check_namespace(namespace: str, gates: Gates) -> None:
    if not gates.allows(namespace):
        raise _Refused(JobReason.NAMESPACE_REFUSED, f"jobs write nothing in the namespace {namespace}")


def _deletion(job: Job, kind: Kind[Object], metadata: Mapping[str, Any], gates: Gates) -> Task:
    namespace, name = _place(metadata, gates)
    return Task(job=job, verb=Verb.DELETE, kind=kind, namespace=namespace, name=name)


def _application(job: Job, kind: Kind[Object], body: Mapping[str, Any], gates: Gates) -> Task:
    metadata: Mapping[str, Any] = body["metadata"]
    namespace, name = _place(metadata, gates)
    unknown = [
        *(str(field) for field in body if field not in {"apiVersion", "kind", "metadata", "spec"}),
        *(f"metadata.{field}" for field in metadata if field not in {"name", "namespace", "labels", "annotations"}),
    ]
    if unknown:
        raise _Refused(JobReason.MALFORMED, f"a job does not write {', '.join(unknown)}"[:500])
    if not isinstance(body.get("spec"), Mapping):
        raise _Refused(JobReason.MALFORMED, "spec: give the desired state as an object")
    labels, annotations = _texts(metadata, "labels"), _texts(metadata, "annotations")
    _check_fields(body["spec"], labels, annotations, gates)
    if labels.get(ControlPlaneLabel.CLUSTER_ID, gates.cluster_id) != gates.cluster_id:
        raise _Refused(JobReason.WRONG_CLUSTER, f"the object is labelled for another cluster than {gates.cluster_id}")
    labels |= {
        ControlPlaneLabel.MANAGED_BY: ControlPlaneLabel.CONTROL_PLANE,
        ControlPlaneLabel.CLUSTER_ID: gates.cluster_id,
    }
    written: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    if annotations:
        written["annotations"] = annotations
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": written, "spec": dict(body["spec"])}
    task = Task(job=job, verb=Verb.APPLY, kind=kind, namespace=namespace, name=name, body=whole)
    if task.generation is not None:
        written["annotations"] = {**annotations, Annotation.JOB_GENERATION: str(task.generation)}
    return task


def _check_fields(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str], gates: Gates
) -> None:
    """Raise for a field that people of this cluster write, and for another namespace that is denied."""
    release = spec.get("release")
    target = release.get("namespace") if isinstance(release, Mapping) else None
    if isinstance(target, str):
        _check_namespace(target, gates)
    refused = [*written_words(labels, annotations), *written_approvals(spec)]
    if refused:
        raise _Refused(
            JobReason.FIELD_REFUSED, f"only people of this cluster write {', '.join(refused)}: leave it out"[:500]
        )


def _texts(metadata: Mapping[str, Any], field: str) -> dict[str, str]:
    texts = metadata.get(field) or {}
    if not isinstance(texts, Mapping) or not all(isinstance(value, str) for value in texts.values()):
        raise _Refused(JobReason.MALFORMED, f"metadata.{field}: a mapping of texts")
    return dict(texts)


def result_of(refusal: JobRefusal, now: datetime) -> JobResult:
    """Return the result that reports a refusal."""
    return JobResult(
        idempotency_key=refusal.key,
        outcome=refusal.outcome,
        reason=refusal.reason,
        message=refusal.message,
        finished_at=now,
    )
