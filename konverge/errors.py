"""Every error of the library, as one tree.

    KonvergeError
    ├── ApiError                    an unsuccessful response of the API server            runtime: back off and retry
    │   ├── BadRequest       400
    │   ├── Unauthorized     401
    │   ├── Forbidden        403                                                          names the RBAC rule that is missing
    │   ├── NotFound         404
    │   ├── AlreadyExists    409
    │   ├── Conflict         409    the version or a precondition did not hold
    │   │   ├── ApplyConflict       another field manager owns a field                    runtime: take or hold
    │   │   └── ObjectChanged       a write with `expect`: the object changed since the read
    │   ├── Expired          410    the version is too old to watch from                  informer: list again
    │   ├── Invalid          422
    │   ├── TooManyRequests  429    with the server's delay
    │   │   └── EvictionRefused     a PodDisruptionBudget allows no eviction now
    │   └── ServerFailure    5xx
    ├── Unreachable                 no response; a write may have been done               runtime: back off and retry
    ├── NotServed                   the cluster does not serve the kind                   runtime: the controller is not ready
    ├── ConfigError                 no usable kubeconfig or mounted ServiceAccount        raised at start
    ├── InvalidObject               a stored object does not decode into its model        runtime: sets a condition, waits for a change
    ├── NotConvertible              a version of a kind cannot hold an object             runtime: the webhook of the conversion refuses
    ├── RetryAfter                  raised by a reconciler: an error with its own delay
    ├── Terminal                    raised by a reconciler: record it, do not retry
    ├── ReconcileTimeout            a reconcile took longer than its limit                runtime: back off and retry
    ├── NotLeading                  a write of a process that does not lead any more      runtime: nothing is sent; the process is a standby
    ├── NotReady                    a manager did not become ready in time
    └── UsageError                  a mistake in the calling program; the message gives the fix
        ├── CacheNotWatched         a cache was read that no informer fills
        ├── FieldDropped            a field was read that its cache drops
        ├── MetadataOnly            the body of an object was read, but only its metadata is cached
        ├── NotAnOutcome            a reconcile returned something else than an Outcome
        ├── ForgottenAwait          an effect was created and never awaited
        ├── OwnershipError          an owner that the garbage collector would not honour
        ├── NotOurs                 a child that exists and is not ours, or another controller writes
        ├── Contested               another writer undoes an apply again and again
        ├── ConditionError          an undeclared type, a malformed reason, a message too long
        └── SchemaError             a model that no structural schema can express

Guarantees: a message names the attempt, the result and, if known, the remedy. No message contains the
content of a Secret or a credential. Transport errors are causes (`__cause__`), never base classes.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from konverge.outcome import seconds

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ApplyConflict",
    "BadRequest",
    "CacheNotWatched",
    "ConditionError",
    "ConfigError",
    "Conflict",
    "Contested",
    "EvictionRefused",
    "Expired",
    "FieldConflict",
    "FieldDropped",
    "Forbidden",
    "ForgottenAwait",
    "Invalid",
    "InvalidObject",
    "KonvergeError",
    "MetadataOnly",
    "NotAnOutcome",
    "NotConvertible",
    "NotFound",
    "NotLeading",
    "NotOurs",
    "NotReady",
    "NotServed",
    "ObjectChanged",
    "OwnershipError",
    "ReconcileTimeout",
    "RetryAfter",
    "SchemaError",
    "ServerFailure",
    "Terminal",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "UsageError",
    "stack_of",
]


def stack_of(error: BaseException | None = None) -> str:
    """Return the traceback of an error, or of the error being handled, as text for a log line: never with the values of variables.

    A log's own rendering of exceptions may show local variables, and those may hold the content of a Secret.
    """
    present = sys.exception() if error is None else error
    return "" if present is None else "".join(traceback.format_exception(present)).rstrip()


class KonvergeError(Exception):
    """The root: catch it to catch everything that the library raises on purpose.

    >>> issubclass(Terminal, KonvergeError)
    True
    """


class ApiError(KonvergeError):
    """The API server sent an unsuccessful response.

    `status` is the HTTP code, `reason` the machine-readable word of the Status object ("" if it has none), `message` the
    server's text, `causes` the rejected fields as (field, message), `retry_after` the seconds of Retry-After, if any. `request` names
    the request, without its body.

    >>> print(ApiError("etcd has no leader", status=500, request="get pods web/a"))
    get pods web/a: etcd has no leader
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: Sequence[tuple[str, str]] = (),
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.request = request


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are missing or no longer valid."""


class Forbidden(ApiError):
    """403: the credentials are known, the right is missing.

    >>> Forbidden("secrets is forbidden", status=403).status
    403
    """


class NotFound(ApiError):
    """404: no such object.

    >>> NotFound("pods web/a not found", status=404).status
    404
    """


class AlreadyExists(ApiError):
    """409 AlreadyExists: an object of that name exists."""


class Conflict(ApiError):
    """409 Conflict: the resourceVersion, the uid or another precondition did not hold.

    Also 422 for a patch or an apply that names another uid than the object's: the named object was deleted, and a successor has its name.

    >>> Conflict("the object has been modified", status=409).status
    409
    """


class FieldConflict(NamedTuple):
    """One field of an apply that another manager owns: the manager and the field's path (`.spec.interval`)."""

    manager: str
    field: str


class ApplyConflict(Conflict):
    """409 to a server-side apply without force: `conflicts` names each field and its owner."""

    def __init__(
        self, message: str, *, conflicts: Sequence[FieldConflict], status: int = 409, request: str = ""
    ) -> None:
        super().__init__(message, status=status, reason="Conflict", request=request)
        self.conflicts = tuple(conflicts)


class ObjectChanged(Conflict):
    """A write with `expect` lost a race: since the read, another writer changed, deleted or recreated the object, and nothing was written.

    Read the object again and decide again, or let the error end the reconcile: the runtime retries a Conflict with backoff.

    >>> ObjectChanged("pods web/a not found", status=404).deleted
    True
    """

    @property
    def deleted(self) -> bool:
        """Whether no object of this name exists any more."""
        return self.status == 404


class Expired(ApiError):
    """410: the resourceVersion or the continue token is older than the server's history."""


class Invalid(ApiError):
    """422: the object breaks its schema or a validation rule; `causes` names the fields."""


class TooManyRequests(ApiError):
    """429: the server limits the rate; `retry_after` is its delay in seconds."""


class EvictionRefused(TooManyRequests):
    """429 to an eviction: a PodDisruptionBudget allows none now. It is not a rate limit, so the request is not repeated."""


class ServerFailure(ApiError):
    """5xx: the server, or a component behind it, failed."""


class Unreachable(KonvergeError):
    """No response: refused, reset, timed out or cut off.

    `maybe_done` is True if the request may have reached the server: a write must then be treated as possibly done.
    """

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class NotServed(KonvergeError):
    """The API server does not serve the kind: its CRD, or this version of it, is not installed."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(
            f"the API server serves no {kind} in {api_version}; install its CRD (for ours: konverge crds --apply)"
        )
        self.api_version = api_version
        self.kind = kind


class ConfigError(KonvergeError):
    """No usable configuration: the message names the file or variable and the mistake."""


class InvalidObject(KonvergeError):
    """A stored object does not decode into its model. `field` is the path of the first mistake (`.spec.schedule`), `problem` describes it.

    Raised by decoding, and again by reading `.spec` of an object that did not decode.

    >>> print(InvalidObject("Backup web/nightly", ".spec.schedule", "a required field is missing"))
    Backup web/nightly does not decode: .spec.schedule: a required field is missing
    """

    def __init__(self, what: str, field: str, problem: str) -> None:
        super().__init__(f"{what} does not decode: {field}: {problem}")
        self._what = what
        self.field = field
        self.problem = problem

    def __reduce__(self) -> tuple[type[InvalidObject], tuple[str, str, str]]:
        """Support copy and pickle, which would otherwise call the constructor with only the message."""
        return type(self), (self._what, self.field, self.problem)


class NotConvertible(KonvergeError):
    """Raised by a function of a `Conversion`: the other version cannot hold this object. The client of the API server reads the message.

    `field` is the path as the API spells it (`.spec.schedule`), `problem` describes what the field must be. Put no secret into it.

    >>> print(NotConvertible(".spec.schedule", "v1beta1 holds one schedule, and this object has several"))
    .spec.schedule: v1beta1 holds one schedule, and this object has several
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    def __reduce__(self) -> tuple[type[NotConvertible], tuple[str, str]]:
        """Support copy and pickle, which would otherwise call the constructor with only the message."""
        return type(self), (self.field, self.problem)


class RetryAfter(KonvergeError):
    """Raised by a reconciler: this failed; try again after `delay` seconds instead of by backoff.

    >>> RetryAfter(30, "the mirror is being rebuilt").delay
    30.0
    """

    def __init__(self, delay: float | timedelta, message: str = "") -> None:
        value = seconds(delay)
        if not value > 0 or value == float("inf"):
            raise ValueError(f"RetryAfter needs a finite duration above zero, got {delay!r}")
        super().__init__(message or f"retry after {value:g} s")
        self.delay = value


class Terminal(KonvergeError):
    """Raised by a reconciler: retrying cannot help; record it and wait for a change of the object.

    >>> raise Terminal("the volume was deleted")
    Traceback (most recent call last):
    konverge.errors.Terminal: the volume was deleted
    """


class ReconcileTimeout(KonvergeError):
    """A reconcile was cancelled because it took longer than the controller's reconcile timeout."""


class NotLeading(KonvergeError):
    """A write was not sent, because this process does not hold the lease any more: another replica may write by now."""


class NotReady(KonvergeError):
    """A manager did not become ready in time; the message names the controller and the reason."""


class UsageError(KonvergeError):
    """A mistake in the calling program, raised as early as possible; the message gives the fix."""


class CacheNotWatched(UsageError):
    """A cache was read that no informer fills. Raised at start if it is detected there, else by the read."""


class FieldDropped(UsageError):
    """A field of a cached object was read, or the object written, but the cache drops the field; read it live."""


class MetadataOnly(UsageError):
    """The body of an object was read, but only its metadata is cached; read it live."""


class NotAnOutcome(UsageError):
    """`reconcile` or `finalize` returned something else than an Outcome."""


class ForgottenAwait(UsageError):
    """An effect (`ctx.own(...)`) was created and never awaited; nothing was sent."""


class OwnershipError(UsageError):
    """An owner reference that the garbage collector would not honour, refused before it is written."""


class NotOurs(UsageError):
    """An existing object without our controller reference, or with another writer; nothing was sent."""


class Contested(UsageError):
    """Two writers undo each other's applies of one object again and again; the message names both, the object and the fields.

    Raised by an apply if both writers belong to one manager; nothing was sent. A writer outside of the manager is logged and counted, and
    fails a test.
    """


class ConditionError(UsageError):
    """A condition of a type that the resource does not declare, or a reason or message that the API would refuse."""


class SchemaError(UsageError):
    """A model that no structural schema can express; names the field's path and an alternative."""
