"""The contestants, and the source of each contestant's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Contestant:
    """A program, and the form of its participation.

    `made` is "python" (a module of `baselines/`, by the interpreter of `installed`), "go" or "rust" (built). `watches` is false for the bare writer, which takes part only if
    all objects exist before it begins; `owns`: it creates and restores children.
    """

    name: str
    label: str
    made: str
    module: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    watches: bool = True
    owns: bool = True
    only: frozenset[str] = frozenset()

    def takes_part(self, session: str, *, owners: bool) -> bool:
        """Whether it has a row in a session."""
        return (self.owns or not owners) and (not self.only or session in self.only)

    def command(self, programs: Mapping[str, Path]) -> list[str]:
        """The command that runs it; raises KeyError where its program was not built."""
        if self.made == "python":
            return [str(programs[self.made]), "-m", f"baselines.{self.module}"]
        return [str(programs[self.made])]


CONTESTANTS = (
    Contestant("konverge", "konverge", "python", "konverge_peer"),
    Contestant(
        "konverge-speed", "konverge[speed]", "python", "konverge_peer", {"PEER_LOOP": "uvloop", "PEER_OWN_WRITES": "0"}
    ),
    Contestant("bare-loop", "bare asyncio loop (limit)", "python", "bare_loop", owns=False),
    Contestant(
        "bare-writer",
        "bare writer (limit)",
        "python",
        "bare_writer",
        watches=False,
        owns=False,
        only=frozenset({"base", "base50", "delay", "large"}),
    ),
    Contestant("cr-unstructured", "controller-runtime, unstructured", "go", extra={"PEER_VARIANT": "unstructured"}),
    Contestant("cr-typed", "controller-runtime, typed, stripped", "go", extra={"PEER_VARIANT": "typed"}),
    Contestant(
        "kopf-change", "kopf on.create, on.update", "python", "kopf_peer", {"PEER_VARIANT": "change"}, owns=False
    ),
    Contestant("kopf-event", "kopf on.event", "python", "kopf_peer", {"PEER_VARIANT": "event"}),
    Contestant("kube-rs", "kube-rs", "rust"),
    Contestant(
        "konverge-events",
        "konverge, Events on",
        "python",
        "konverge_peer",
        {"PEER_EVENTS": "1"},
        owns=False,
        only=frozenset({"base", "base50"}),
    ),
)
"""In the order of the tables."""

LIMITS = frozenset({"bare-loop", "bare-writer"})
BY_NAME = {each.name: each for each in CONTESTANTS}
