"""Invariants of Operations that hold after every write, in any order of events and under any fault."""

from __future__ import annotations

from typing import Any

from apps.job_controller import at_work

from konverge.objects import Object
from konverge.reconcilers.apps.operations.conflicts import TERMINAL
from konverge.testing import Lab

NAME = "ops.vworkspace.io/operation-name"
UID = "ops.vworkspace.io/operation"
APART = frozenset(
    frozenset(pair)
    for pair in (
        ("Restore", "Restore"),
        ("Restore", "Backup"),
        ("Restore", "Upgrade"),
        ("Restore", "Migration"),
        ("Upgrade", "Upgrade"),
        ("Upgrade", "Migration"),
        ("Migration", "Migration"),
    )
)
"""The pairs of types that exclude each other, as the reference says and not as the code under test does."""


class Safety:
    """The invariants, checked after every write."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: dict[str, set[str]] = {}
        self._phases: dict[str, str] = {}
        self._types: dict[str, tuple[str, str, bool]] = {}
        lab.always.append(self.check)

    def _stored(self, group: str, plural: str) -> list[dict[str, Any]]:
        return [entry.object() for entry in self._lab.server.store.list((group, plural))]

    def check(self) -> None:
        for one in self._stored("ops.vworkspace.io", "operations"):
            uid, now = one["metadata"]["uid"], (one.get("status") or {}).get("phase", "")
            exclusive = one["spec"].get("parameters", {}).get("exclusive") is True
            self._types[uid] = (one["spec"]["targetRef"]["name"], one["spec"]["type"], exclusive)
            before = self._phases.get(uid, "")
            assert before not in TERMINAL or now == before, f"{one['metadata']['name']} went from {before} to {now}"
            self._phases[uid] = now
        working = []
        for job in map(Object, self._stored("batch", "jobs")):
            uid = job.metadata.label(UID)
            if not uid or uid not in self._types:
                continue
            if any(one.get("manager") == "konverge" for one in job.get("metadata", "managedFields", default=[])):
                self._made.setdefault(uid, set()).add(job.metadata.uid)
                assert len(self._made[uid]) == 1, f"{job.metadata.annotation(NAME)} has had {len(self._made[uid])} Jobs"
            if at_work(job) and not job.metadata.deleting:
                working.append((*self._types[uid], job.metadata.annotation(NAME)))
        for place, (target, type_, alone, name) in enumerate(working):
            for where, other_type, other_alone, other in working[place + 1 :]:
                excludes = alone or other_alone or frozenset((type_, other_type)) in APART
                assert not (target == where and excludes), f"{name} and {other} are at work at once"
