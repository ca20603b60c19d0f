"""Plans: the decision of a reconcile as frozen data.

A pure `decide(seen, now) -> Plan` needs no loop, no server and no fixture to be tested; Only `Context.execute` converts a plan to writes.
It applies children in the order of the plan, deletes owned children outside the plan (if `children` is not None and none is held), deletes
`deletes`, then sets conditions and draft. The status is written once, at the end of the reconcile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from konverge.conditions import Truth, truth
from konverge.kinds import Kind, Resource
from konverge.model import Model
from konverge.outcome import Done, Outcome
from konverge.runtime.apply.conflicts import Child

__all__ = ["ConditionUpdate", "Delete", "Plan"]

St = TypeVar("St", bound=Model)
R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
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


@dataclass(frozen=True, slots=True)
class Delete:
    """One object to delete; `uid` and `resource_version` are preconditions.

    >>> from konverge.kinds import kind
    >>> Delete(kind("v1", "ConfigMap"), "a", "web", uid="0a1b").name
    'a'
    """

    kind: Kind[Any]
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[St]):
    """The decision of one reconcile.

    `children` None leaves children untouched (a plan with Blocked or an invalid spec); a tuple, even an empty one, is the whole set.
    `draft` is a status whose set fields replace the fields of the present status. `remove_conditions` names conditions to remove.

    >>> Plan(set_conditions=(ConditionUpdate("Ready", True, "Scheduled"),)).children is None
    True
    """

    children: tuple[Child | Resource, ...] | None = None
    deletes: tuple[Delete, ...] = ()
    set_conditions: tuple[ConditionUpdate, ...] = ()
    remove_conditions: tuple[str, ...] = ()
    draft: St | None = None
    outcome: Outcome = field(default_factory=Done)
