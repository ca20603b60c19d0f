"""The plan of a campaign: the sessions with their numbers, their repetitions and their order. Pure.

A session is one life of a control plane and a contestant in it. Its parts follow each other, so that a contestant is measured on objects
that it created itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from peers.contestants import CONTESTANTS, Contestant
from peers.statistics_of import rotated

STAND_IN = "-standin"


@dataclass(frozen=True, slots=True)
class Session:
    """One kind of run, on the real server or on the stand-in. `rates` are changes a second of the open loops; `delay_ms` is a round trip that is added."""

    name: str
    count: int
    runs: int
    workers: int = 10
    delay_ms: float = 0.0
    storm: bool = True
    rates: tuple[float, ...] = ()
    load_seconds: float = 60.0
    restart: bool = False
    idle_seconds: float = 0.0
    repairs: int = 0
    repair_rate: float = 10.0
    settle_seconds: float = 5.0
    warm: int = 200
    quick: bool = False
    stand_in: bool = False

    @property
    def base(self) -> str:
        """The name of the same session on the real server."""
        return self.name.removesuffix(STAND_IN)

    @property
    def title(self) -> str:
        """The session in words."""
        words = [
            f"{self.count:,} objects" + (" with 20 children each" if self.owners else ""),
            f"{self.workers} at once",
            *([f"{self.delay_ms:g} ms of network delay"] if self.delay_ms else []),
            *(["on the stand-in"] if self.stand_in else []),
        ]
        return ("QUICK, " if self.quick else "") + ", ".join(words)

    @property
    def owners(self) -> bool:
        """Whether the objects own children."""
        return self.repairs > 0

    @property
    def patience(self) -> float:
        """Seconds after which a contestant that has not converged has failed."""
        return 120 + self.count / 20 * (20 if self.owners else 1)


_ON_THE_REAL_SERVER = (
    Session("base", 2_000, 5, rates=(100.0, 300.0), restart=True),
    Session("base50", 2_000, 5, workers=50),
    Session("delay", 2_000, 5, delay_ms=5.0),
    Session("large", 20_000, 3, storm=False, idle_seconds=60.0),
    Session("owners", 100, 5, storm=False, repairs=600),
)
SESSIONS = (
    *_ON_THE_REAL_SERVER,
    *(replace(each, name=each.name + STAND_IN, stand_in=True) for each in _ON_THE_REAL_SERVER),
)
"""Each session on the real server, then each on the stand-in, which is not the limit of a rate."""

_SMALL = {
    "base": {"count": 200, "rates": (20.0, 50.0), "load_seconds": 4.0},
    "base50": {"count": 200},
    "delay": {"count": 200},
    "large": {"count": 600, "idle_seconds": 5.0},
    "owners": {"count": 5, "repairs": 30},
}

QUICK = tuple(
    replace(
        session,
        quick=True,
        runs=1,
        settle_seconds=1.0,
        warm=50,
        **_SMALL[session.base],  # type: ignore[arg-type]  # the numbers of one table
    )
    for session in SESSIONS
)
"""The same with small numbers, which only show that everything works."""


@dataclass(frozen=True, slots=True)
class Run:
    """One contestant in one session, once; `number` counts from 0."""

    session: Session
    contestant: Contestant
    number: int

    @property
    def name(self) -> str:
        """How its file is named."""
        return f"{self.session.name}-{self.contestant.name}-{self.number + 1}"


def runs(sessions: Sequence[Session], contestants: Sequence[Contestant] = CONTESTANTS) -> Iterator[Run]:
    """All runs in their order: within a session all contestants once, then all again, each time with another contestant first."""
    for session in sessions:
        taking_part = [each for each in contestants if each.takes_part(session.base, owners=session.owners)]
        for number in range(session.runs):
            yield from (Run(session, each, number) for each in rotated(taking_part, number))
