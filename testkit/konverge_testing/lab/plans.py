"""Plans: the faults of a run, as small JSON files that can each be replayed. Pure.

A plan names its faults by numbers of a reference run: the k-th write request of the process under test (from 1), the n-th line of a
watch. Since a run is the same to the byte for the same seed, the numbers mean the same thing in a rerun, up to the first fault.

    {"name": "crash after write 3", "crashes": [{"write": 3, "moment": "after"}], "seed": 7}
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from konverge_testing.apiserver.faults.rules import Moment, Rule

__all__ = [
    "MOST_DOWN",
    "MOST_JOINED",
    "Crash",
    "Foreign",
    "Interruption",
    "Lease",
    "LeaseFault",
    "Plan",
    "ServiceFault",
    "Timed",
    "Touch",
]

MOST_DOWN: Final = 3 * 3600.0
"""Seconds of the longest outage of the process in a plan."""
MOST_JOINED: Final = 3
"""The most plans that a random plan joins; under plans the waits of a scenario last so many outages longer."""

Touch: TypeAlias = Literal["edit", "take", "delete", "recreate", "unfinalize", "terminate", "remove-crd"]
"""Foreign writes: change a field and own it; take a field that the process owns; delete; delete and create again with another uid; remove
the finalizers by hand; delete the namespace; remove the kind's CRD and put it back."""


LeaseFault: TypeAlias = Literal["lose", "delete", "empty", "slow", "pause", "apart", "twins"]
"""Faults of leadership; `Lease` describes each."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class Crash(_Part, frozen=True):
    """The process dies at its write `write`: before the write reaches the server, or between its storage and the response.

    Its memory is lost, and a new process starts at once. With `behind` the new process first reads a server that lags by that many
    versions, for `stale_seconds`. With `down` the new process starts that many seconds later.
    """

    write: int
    moment: Moment = "after"
    behind: int = 0
    stale_seconds: float = 5.0
    down: float = 0.0


class Timed(_Part, frozen=True):
    """A rule of the server's faults that begins after write `after` (0: from the start) and ends `seconds` later (None: never)."""

    rule: dict[str, Any]
    after: int = 0
    seconds: float | None = None

    @property
    def as_rule(self) -> Rule:
        """A new rule for each run."""
        return Rule.from_json(self.rule)


class Foreign(_Part, frozen=True):
    """A foreign write, right after the process's write `after`."""

    after: int
    do: Touch
    resource: str = ""
    """`plural.group`."""
    namespace: str = ""
    name: str = ""
    path: tuple[str, ...] = ()
    value: Any = None
    back_after: float = 30.0
    """Seconds until a CRD that was removed is put back."""


class Lease(_Part, frozen=True):
    """A fault of leadership, right after the process's write `after`; the process then runs as two replicas, and one of them leads.

    `lose`: another holder is written into the Lease. `delete`, `empty`: the Lease is deleted, its holder emptied by hand. `slow`: requests
    about Leases take longer than a renewal may, for `seconds`. `pause`: the leader neither sends nor receives, for `seconds`. `apart`: as
    `lose`, with the clock of the second replica a day apart. `twins`: as `pause`, with one identity for both replicas.
    """

    after: int
    do: LeaseFault
    seconds: float = 0.0


class Interruption(_Part, frozen=True):
    """The `finalize`-th call of `finalize` raises an error of the API or lets a cancellation through: before it begins, or at its end,
    when everything that it does is done.
    """

    finalize: int
    do: Literal["raise", "cancel"]
    moment: Moment = "before"

    @property
    def text(self) -> str:
        """The text of its error, and of its line in the timeline."""
        words = "raises" if self.do == "raise" else "is cancelled"
        return f"finalize {self.finalize} {words} {'before it begins' if self.moment == 'before' else 'at its end'}"


class ServiceFault(_Part, frozen=True):
    """A fault of a service of the scenario, at its `request`-th request.

    `unavailable`: the response is 503, and nothing is done. `silent`: no response arrives, and nothing is done. `lost`: the request is
    carried out, and the connection breaks before the response.
    """

    service: str
    request: int
    do: Literal["unavailable", "silent", "lost"]


class Plan(_Part, frozen=True):
    """All faults of one run. A plan without faults is the reference run.

    >>> Plan.from_json('{"name": "x", "crashes": [{"write": 3}], "seed": 7}').crashes[0].moment
    'after'
    """

    name: str
    seed: int = 0
    crashes: tuple[Crash, ...] = ()
    rules: tuple[Timed, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    leases: tuple[Lease, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    services: tuple[ServiceFault, ...] = ()
    same_end: bool = True
    """Whether the run has to end as the reference did; if a foreign change may stay, the run only has to settle."""

    @property
    def faults(self) -> int:
        """The number of its faults."""
        return sum(map(len, self._parts()))

    def _parts(self) -> tuple[tuple[Any, ...], ...]:
        return (self.crashes, self.rules, self.foreign, self.leases, self.interruptions, self.services)

    def to_json(self) -> str:
        """Return the plan as the text of its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Read a plan. Raises ValueError that names the place and the error."""
        plan = msgspec.json.decode(text, type=Plan)
        for place, timed in enumerate(plan.rules):
            try:
                _ = timed.as_rule
            except ValueError as error:
                raise ValueError(f"rules[{place}].rule: {error}") from error
        return plan

    def without(self, place: int) -> Plan:
        """Return the plan without one of its parts, in the order of the fields: one step of shrinking."""
        parts = [list(part) for part in self._parts()]
        for part in parts:
            if place < len(part):
                del part[place]
                break
            place -= len(part)
        crashes, rules, foreign, leases, interruptions, services = (tuple(part) for part in parts)
        return msgspec.structs.replace(
            self,
            crashes=crashes,
            rules=rules,
            foreign=foreign,
            leases=leases,
            interruptions=interruptions,
            services=services,
        )
