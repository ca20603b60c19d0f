"""The memory of this process about a pool: its creations, the chosen names, and the pause after replacements of failed instances. Pure.

Guarantees: in no window more creations are forgotten than the status and the members show, so a restart loses only what the next process
reads again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final

from konverge.clock import rfc3339_micro
from konverge.crds.pools_v1alpha1 import RecentCreation
from konverge.reconcilers.pools.members import Member, MemberViews
from konverge.reconcilers.pools.names import instance_name
from konverge.reconcilers.pools.nonces import digest_of, new_nonce
from konverge.reconcilers.pools.settings import PoolSettings

__all__ = ["Nomination", "PoolMemory"]

_MAX_ROUNDS: Final = 20
"""The pause is doubled at most so often: a greater power would exceed the numbers of a float."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """A name that was chosen for a new instance."""

    nonce: str
    chosen: datetime


@dataclass(slots=True)
class PoolMemory:
    """When instances were created, which names are chosen, and how often failed instances were replaced."""

    created: dict[str, datetime] = field(default_factory=dict)
    nominations: dict[str, Nomination] = field(default_factory=dict)
    """The names of instances that this process is still to create."""
    views: MemberViews = field(default_factory=MemberViews, compare=False)
    rounds: int = 0
    replace_after: datetime | None = None

    def see(
        self,
        members: Collection[Member],
        recorded: Mapping[str, datetime],
        digests: Mapping[str, str],
        since: datetime,
    ) -> None:
        """Remember the instances that were created since then, and forget the older instances and the unused names."""
        for name in self.nominations.keys() & [member.name for member in members] if self.nominations else ():
            del self.nominations[name]
        self.nominations = {
            name: nomination
            for name, nomination in self.nominations.items()
            if digests.get(name) in (None, digest_of(nomination.nonce))
        }
        past = {name: moment for name, moment in recorded.items() if name not in self.nominations}
        recent = {member.name: member.created for member in members if member.created > since}
        self.created = recent | past | self.created
        self.created = {name: moment for name, moment in self.created.items() if moment > since}

    def nominate(
        self, number: int, recorded: Collection[str], settings: PoolSettings, random: Random, now: datetime
    ) -> bool:
        """Choose names for so many instances; returns whether the status is to be written before they are created."""
        waiting = [name for name in self.nominations if name not in recorded]
        for _ in range(number - len(waiting)):
            name = instance_name(random, settings.adjectives, settings.nouns)
            self.nominations[name] = Nomination(new_nonce(random), now)
        return any(name not in recorded for name in self.nominations)

    def pause_replacements(self, settings: PoolSettings, now: datetime) -> None:
        """Begin the pause after a replacement of failed instances; each round doubles it."""
        pause = min(settings.replace_backoff * 2**self.rounds, settings.replace_backoff_limit)
        self.rounds = min(self.rounds + 1, _MAX_ROUNDS)
        self.replace_after = now + timedelta(seconds=pause)

    def end_pause(self) -> None:
        """Replace failed instances at once again: an instance became ready."""
        self.rounds, self.replace_after = 0, None

    def has_news(self, recorded: Collection[str]) -> bool:
        """Whether the status lacks a creation or a chosen name."""
        return bool((self.created.keys() | self.nominations.keys()) - set(recorded))

    def creations(self, digests: Mapping[str, str]) -> tuple[RecentCreation, ...]:
        """Return the creations and the chosen names for the status, with the digests of their nonces."""
        known = {**digests, **{name: digest_of(nomination.nonce) for name, nomination in self.nominations.items()}}
        moments = self.created | {name: nomination.chosen for name, nomination in self.nominations.items()}
        return tuple(
            RecentCreation(name=name, created_at=rfc3339_micro(moment), nonce_digest=known.get(name) or None)
            for name, moment in sorted(moments.items())
        )
