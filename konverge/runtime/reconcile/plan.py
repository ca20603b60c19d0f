"""Plans: the decision of a reconcile as frozen data.

A pure `decide(observed, now) -> Plan` needs no loop, no server and no fixture to be tested. Only `Context.execute` converts a plan to
writes, in the order of the fields of `Plan`. The status is written once, at the end of the reconcile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from konverge.conditions import Truth, truth
from konverge.kinds import Kind, Resource
from konverge.model import Model
from konverge.objects import Metadata
from konverge.outcome import Done, Outcome
from konverge.runtime.apply.conflicts import Child

__all__ = ["Apply", "ConditionUpdate", "Delete", "Patch", "Plan", "PlannedEvent"]

St = TypeVar("St", bound=Model)
R = TypeVar("R", bound=Resource)


class ConditionUpdate(msgspec.Struct, frozen=True):
    """One condition to set; `status` None is Unknown.

    >>> ConditionUpdate("Ready", False, "SecretMissing", "create a Secret named target").truth
    'False'
    """

    type: str
    status: bool | None
    reason: str
    message: str = ""

    @property
    def truth(self) -> Truth:
        """The status as the API writes it."""
        return truth(self.status)


class Apply(msgspec.Struct, frozen=True):
    """One object to server-side apply without an owner reference (`Context.apply`).

    >>> from konverge.kinds import kind
    >>> Apply(kind("v1", "ConfigMap").new("a", "web"), force=True).object.metadata.path
    'web/a'
    """

    object: Resource
    force: bool = False
    subresource: str = ""


class Patch(msgspec.Struct, frozen=True):
    """One merge patch (`Context.patch`), of the object with this name or of exactly the version `expect`.

    >>> from konverge.kinds import kind
    >>> read = Metadata(name="a", namespace="web", uid="0a1b", resource_version="7")
    >>> Patch(kind("apps/v1", "Deployment"), {"spec": {"paused": True}}, expect=read).expect.path
    'web/a'
    """

    kind: Kind[Any] | type[Any]
    patch: Mapping[str, Any]
    name: str = ""
    namespace: str = ""
    expect: Resource | Metadata | None = None
    subresource: str = ""


class Delete(msgspec.Struct, frozen=True):
    """One object to delete (`Context.delete`); `uid` is a precondition, `expect` names exactly one version of one object.

    >>> from konverge.kinds import kind
    >>> Delete(kind("v1", "ConfigMap"), "a", "web", uid="0a1b").name
    'a'
    """

    kind: Kind[Any] | type[Any]
    name: str = ""
    namespace: str = ""
    uid: str = ""
    expect: Resource | Metadata | None = None


class PlannedEvent(msgspec.Struct, frozen=True):
    """One Kubernetes Event about the reconciled object, or about the object of `kind` with the metadata `about`.

    >>> PlannedEvent("Copied", "3 files were copied").type_
    'Normal'
    """

    reason: str
    message: str
    type_: str = "Normal"
    kind: Kind[Any] | type[Any] | None = None
    about: Metadata | None = None


class Plan(msgspec.Struct, Generic[St], frozen=True, kw_only=True):
    """The decision of one reconcile, carried out in the order of these fields. A write that raises ends the execution.

    `children` None leaves children untouched (a plan with Blocked or an invalid spec); a tuple, even an empty one, is the whole set:
    owned children outside the set are deleted, unless a child is held. Events precede conditions, so an Event replaces the Event of the
    transition with the same reason. `remove_conditions` names conditions to remove. `draft` is a status whose set fields replace the
    fields of the present status.

    >>> Plan(set_conditions=(ConditionUpdate("Ready", True, "Scheduled"),)).children is None
    True
    """

    children: tuple[Child | Resource, ...] | None = None
    applies: tuple[Apply, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    remove_conditions: tuple[str, ...] = ()
    set_conditions: tuple[ConditionUpdate, ...] = ()
    draft: St | None = None
    outcome: Outcome = Done()
