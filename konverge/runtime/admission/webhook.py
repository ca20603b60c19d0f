"""The builder: a webhook as one sentence.

    Webhook.validating(Backup).on("UPDATE").handled_by(schedule_is_kept)

Guarantees: every verb returns a new frozen value and starts nothing; a mistake that is visible in the sentence is an error at once.
Path and name follow from kind and verb as in controller-runtime (`/validate-example-com-v1-backup`), so that its dashboards fit.

A webhook is a convenience. It is called over the network, it may be down, and an object may be older than the webhook. Invariants
belong in the schema, desired state in a reconciler.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.kinds import Kind, Resource, kind_of
from konverge.rbac import plural_of
from konverge.runtime.admission.request import AdmissionRequest, Operation
from konverge.runtime.admission.verdicts import Verdict
from konverge.selectors import LabelSelector

if TYPE_CHECKING:
    from konverge.rbac import Rule

__all__ = ["Failure", "Handler", "Read", "Webhook"]

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Resource)

Handler: TypeAlias = "Callable[[AdmissionRequest[R]], Awaitable[Verdict] | Verdict]"
Failure: TypeAlias = Literal["Fail", "Ignore"]

_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_NAME: Final = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
_LONGEST: Final = 30


class Read(msgspec.Struct, frozen=True):
    """One kind whose cache a handler reads."""

    kind: Kind[Any]
    metadata_only: bool = False


class Webhook(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """The description of a webhook; `Manager.add` serves it. Begin with `mutating` or `validating`, end with `handled_by`.

    >>> from konverge.kinds import kind
    >>> Webhook.validating(kind("batch/v1", "CronJob")).named("nights-only").path
    '/nights-only-batch-v1-cronjob'
    """

    kind: Kind[R]
    mutates: bool
    label: str
    model: type[Any] | None = None
    handler: Handler[R] | None = None
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresource: str = ""
    failure: Failure = "Fail"
    timeout: int = 10
    effects: bool = False
    reinvoked: bool = False
    exact: bool = False
    objects: str = ""
    namespaces: str = ""
    conditions: tuple[tuple[str, str], ...] = ()
    read: tuple[Read, ...] = ()
    rules: tuple[Rule, ...] = ()

    @staticmethod
    def mutating(what: Kind[W] | type[W]) -> Webhook[W]:
        """Return a webhook whose handler completes every created or changed object of this kind, before validation."""
        return _begun(what, mutates=True)

    @staticmethod
    def validating(what: Kind[W] | type[W]) -> Webhook[W]:
        """Return a webhook whose handler allows or denies every created or changed object of this kind."""
        return _begun(what, mutates=False)

    def on(self, *operations: Operation, subresource: str = "") -> Webhook[R]:
        """Review only these operations, instead of CREATE and UPDATE; with `subresource` (`status`) only writes to that subresource."""
        wrong = [operation for operation in operations if operation not in _OPERATIONS]
        if wrong or not operations:
            raise UsageError(f".on({', '.join(map(repr, operations))}): the operations are {', '.join(_OPERATIONS)}")
        if self.mutates and "DELETE" in operations:
            raise UsageError(f"{self.path}: a deletion has no object to change; use Webhook.validating for it")
        if subresource not in ("", "status") and self.model is not None:
            raise UsageError(
                f"{self.path}: objects of the subresource {subresource!r} are of another kind; name that kind with kv.kind(...)"
            )
        return replace(self, operations=operations, subresource=subresource)

    def named(self, label: str) -> Webhook[R]:
        """Name the webhook, if its kind has a second webhook: the name appears in its path and in messages."""
        if not _NAME.match(label) or len(label) > _LONGEST:
            raise UsageError(f"webhook name {label!r}: use up to {_LONGEST} lower case letters, digits and dashes")
        return replace(self, label=label)

    def ignoring_failures(self) -> Webhook[R]:
        """Allow the write, with a warning, if the handler is unreachable, raises or takes too long (failurePolicy Ignore).

        Without this verb such a write is refused (Fail): then objects of this kind can be written only while the webhook works.
        """
        return replace(self, failure="Ignore")

    def within(self, seconds: int) -> Webhook[R]:
        """Set the handler's time limit, 1 to 30 seconds instead of 10; writers wait that long."""
        if not 1 <= seconds <= 30:
            raise UsageError(f"{self.path}: .within({seconds}): the API server waits 1 to 30 seconds")
        return replace(self, timeout=seconds)

    def with_effects(self) -> Webhook[R]:
        """Declare that the handler changes something beyond the object (sideEffects NoneOnDryRun).

        In a dry run it must not: see `request.dry_run`; `request.client` raises UsageError then.
        """
        return replace(self, effects=True)

    def selecting(self, objects: str = "", *, namespaces: str = "") -> Webhook[R]:
        """Review only objects whose labels match a selector, before or after the write, in namespaces whose labels match `namespaces`."""
        for text in (objects, namespaces):
            LabelSelector.given(text, self.path)
        return replace(self, objects=objects, namespaces=namespaces)

    def only_if(self, name: str, expression: str) -> Webhook[R]:
        """Add a match condition: review only writes that fulfil this CEL expression about `object`, `oldObject`, `request`."""
        if not name or name in dict(self.conditions):
            raise UsageError(f"{self.path}: .only_if({name!r}, ...): each condition has a name of its own")
        return replace(self, conditions=(*self.conditions, (name, expression)))

    def reinvoked_if_needed(self) -> Webhook[R]:
        """Call the handler again if a later webhook changed the object (reinvocationPolicy IfNeeded): it must be idempotent."""
        if not self.mutates:
            raise UsageError(f"{self.path}: only a mutating webhook can be asked again")
        return replace(self, reinvoked=True)

    def exactly(self) -> Webhook[R]:
        """Review only this version of the kind; by default the API server converts requests for other versions (matchPolicy Equivalent)."""
        return replace(self, exact=True)

    def reads(self, what: Kind[Any] | type[Any], *, metadata_only: bool = False) -> Webhook[R]:
        """Keep a cache of another kind for the handler: `request.cache(POOL)`. Requests wait until its first list is complete."""
        kind = kind_of(what)
        if any(other.kind == kind for other in self.read):
            raise UsageError(f"{self.path} reads {kind.group_kind} twice; one .reads is enough")
        return replace(self, read=(*self.read, Read(kind, metadata_only)))

    def needs(self, *rules: Rule) -> Webhook[R]:
        """Declare rights beyond the rights of `reads`, for live reads and effects; `konverge rbac` prints them all."""
        return replace(self, rules=(*self.rules, *rules))

    def handled_by(self, handler: Handler[R]) -> Webhook[R]:
        """Name the handler, `handler(request) -> Allow | Deny`; the end of the sentence.

        A plain function runs on the event loop: it must be quick and wait for nothing.
        """
        given: Any = handler
        if not callable(given) or inspect.isclass(given):
            raise UsageError(
                f"{handler!r} is no handler: give a function that takes an AdmissionRequest and returns Allow or Deny"
            )
        return replace(self, handler=handler)

    @property
    def path(self) -> str:
        """The webhook's URL path, and its name in metrics: `/mutate-example-com-v1-backup`."""
        group = self.kind.group.replace(".", "-")
        path = f"/{self.label}-{group}-{self.kind.version}-{self.kind.kind.lower()}"
        return f"{path}-{self.subresource.replace('/', '-')}" if self.subresource else path

    @property
    def name(self) -> str:
        """The webhook's name in the configuration, which the API server shows to writers: `mutate.backups.example.com`."""
        resource = plural_of(self.kind)
        return ".".join((self.label, *filter(None, (self.subresource, resource)), self.kind.group or "core"))


def _begun(what: Kind[W] | type[W], *, mutates: bool) -> Webhook[W]:
    model = what if inspect.isclass(what) else None
    return Webhook(kind=kind_of(what), mutates=mutates, label="mutate" if mutates else "validate", model=model)
