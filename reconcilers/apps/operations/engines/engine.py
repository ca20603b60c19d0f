"""The interface of an engine, and the data that it receives and returns.

An engine is a pure translation: `render` returns its object for an `EngineRequest`, `observe` and `lost` read the result, `cancel` returns
how to stop it. The reconciler is responsible for reads, writes, labels, owner references, order and deadlines.

Guarantees
- The object is created at most once, at the `place` that is derived from the UID of the Operation; it is never applied again. Its label
  names that UID, its annotation the digest of the spec.
- `observe` is called with the present object while the Operation has not ended. Its SUCCEEDED, FAILED or CANCELLED is final.
- All methods are pure. `needs` is called again after the objects that it named were read, so that it may name more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from konverge.crds.ops_v1alpha1 import LogsRef
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import CancelledReason, FailedReason

__all__ = [
    "CancelAction",
    "DeleteChild",
    "Edit",
    "Engine",
    "EngineBlocked",
    "EngineRequest",
    "EngineState",
    "ObjectKey",
    "ObjectRef",
    "Observation",
    "PatchChild",
    "Refused",
    "Related",
    "Rendered",
    "Target",
    "WaitForEnd",
    "child_name",
    "child_place",
    "object_lost",
]

_NAME_LENGTH: Final = 63


class EngineState(Enum):
    """The state of an engine's object."""

    ACCEPTED = "Accepted"
    """Created, and not begun."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def final(self) -> bool:
        """Whether the object has ended."""
        return self in (EngineState.SUCCEEDED, EngineState.FAILED, EngineState.CANCELLED)


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Namespace and name."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that an engine wants to read. `live`: from the API server, for kinds that are never cached (Secrets)."""

    kind: Kind[Object]
    namespace: str
    name: str
    live: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The ApplicationInstance that the Operation acts on."""

    namespace: str
    name: str
    uid: str
    release: str = ""
    """The name of its Helm release, "" for a placeholder without one."""
    catalog_id: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Related:
    """The objects that an engine named in `needs`: None for an object that does not exist.

    >>> from konverge.kinds import kind
    >>> secret = ObjectRef(kind("v1", "Secret"), "web", "key")
    >>> Related({secret: None}).find(secret) is None, Related().knows(secret)
    (True, False)
    """

    objects: Mapping[ObjectRef, Mapping[str, Any] | None] = field(default_factory=dict)

    def knows(self, ref: ObjectRef) -> bool:
        """Tell whether the object was read, found or not."""
        return ref in self.objects

    def find(self, ref: ObjectRef) -> Mapping[str, Any] | None:
        """Return the object; None if it does not exist or was not read."""
        return self.objects.get(ref)


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """Everything that a rendering may depend on."""

    operation: ObjectKey
    uid: str
    created: datetime
    type: str
    parameters: Mapping[str, Any]
    target: Target
    settings: OperationSettings
    related: Related = field(default_factory=Related)
    generation: int | None = None
    """The generation that an edited object has to reach; None before the edit, and for objects that are created."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The outputs that were reported so far."""
    written: datetime | None = None
    """When the object of the engine was last written, by any writer; None before it is observed."""
    watched: datetime | None = None
    """Since when this process has seen no change of the object and of the related objects."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Parameters that can never work: the Operation fails before anything is created.

    `reason` of the condition Failed; with ValidationFailed the Operation is not Accepted either.
    """

    message: str
    reason: str = FailedReason.VALIDATION_FAILED


@dataclass(frozen=True, slots=True)
class EngineBlocked:
    """An object is missing or not ready, or a person has to act; a change of a related object enqueues the Operation."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """The object to create, whole but for labels and owner, with the outputs that are known before it runs."""

    object: Object
    outputs: Mapping[str, str] = field(default_factory=dict)
    kept: timedelta = timedelta(minutes=10)
    """How long the object exists at least after it was created: for so long its absence shows that it was never created."""
    owned: bool = True
    """Whether an object in the Operation's namespace is deleted together with the Operation (by its owner reference)."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A merge patch of an existing object, in place of an object to create; it is sent once."""

    kind: Kind[Object]
    namespace: str
    name: str
    patch: Mapping[str, Any]
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PatchChild:
    """Stop the object by a merge patch. It is sent until the object contains it."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Stop the object by deleting it."""


@dataclass(frozen=True, slots=True)
class WaitForEnd:
    """The engine cannot be stopped now; its own end is reported."""

    message: str = ""


CancelAction: TypeAlias = PatchChild | DeleteChild | WaitForEnd


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of an engine's object in the terms of the Operation.

    `reason` is the reason of the condition that `state` sets to True (Failed, Cancelled), or of Running. ACCEPTED is Running=False.
    """

    state: EngineState
    reason: str
    message: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    logs: LogsRef | None = None
    blocked: EngineBlocked | None = None
    """The engine waits for a person (AwaitingResume), or for a missing object or right."""
    recheck_after: timedelta | None = None
    """After this time the same object means something else (a grace time ends)."""
    stop: CancelAction | None = None
    """The engine would continue after this end: how its object is stopped."""
    awaits_pods: bool = False
    """The object is a Job that should run but has no ready pod: the shell looks for the cause (`pods.py`)."""


class Engine(Protocol):
    """One engine of Operations. All methods are pure."""

    @property
    def name(self) -> str:
        """`spec.engine`."""

    @property
    def makes(self) -> tuple[Kind[Object], ...]:
        """The kinds of objects that the engine creates; they are watched, and need not exist in the cluster."""

    @property
    def reads(self) -> tuple[Kind[Object], ...]:
        """The kinds of cached objects that `needs` may name; they are watched, and need not exist in the cluster."""

    @property
    def gets(self) -> tuple[Kind[Object], ...]:
        """The kinds of objects that `needs` may name as `live`; they are read by name, and neither listed nor watched."""

    def kind(self, request: EngineRequest) -> Kind[Object]:
        """Return the kind of the object that this Operation needs."""

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return namespace and name of the object: a function of the Operation's identity and of the settings, never of a status."""

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the related objects to read; called again with `request.related` until it names none that was not read."""

    def render(self, request: EngineRequest) -> Rendered | Edit | Refused | EngineBlocked:
        """Return the object to create, or why there is none. A function of the request only.

        Without related objects it refuses only parameters that can never work: validation calls it in this way.
        """

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        """Translate the present object, which may be in deletion. `started`: since when the Operation holds its target."""

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose object no longer exists (`object_lost`, unless the engine knows more)."""

    def cancel(self, request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:
        """Return how to stop the object now."""


def child_name(request: EngineRequest) -> str:
    """Return the name of an object in the Operation's namespace: the Operation's name and a digest of its UID, at most 63 characters.

    >>> from datetime import UTC
    >>> created = datetime(2030, 1, 1, tzinfo=UTC)
    >>> target = Target("web", "shop", "1")
    >>> child_name(EngineRequest(ObjectKey("web", "nightly"), "2", created, "Backup", {}, target, OperationSettings()))
    'nightly-d4735e3a26'
    """
    tail = f"-{hashlib.sha256(request.uid.encode()).hexdigest()[:10]}"
    head = request.operation.name[: _NAME_LENGTH - len(tail)].replace(".", "-").rstrip("-")
    return f"{head}{tail}"


def child_place(request: EngineRequest) -> ObjectKey:
    """Return the place of an object in the Operation's namespace."""
    return ObjectKey(request.operation.namespace, child_name(request))


def object_lost(what: str, *, asked_to_cancel: bool) -> Observation:
    """Return the end of an Operation whose object is missing: cancelled if a cancel was requested, else lost.

    >>> object_lost("Job web/nightly", asked_to_cancel=True).state
    <EngineState.CANCELLED: 'Cancelled'>
    """
    if asked_to_cancel:
        return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, f"{what} was deleted")
    return Observation(
        EngineState.FAILED,
        FailedReason.ENGINE_OBJECT_LOST,
        f"{what} was deleted before it reported an end; look for its effects before you repeat the Operation",
    )
