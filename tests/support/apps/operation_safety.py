"""Invariants of Operations that hold after every write, in any order of events and under any fault."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from apps.job_controller import at_work as job_works

from konverge.objects import Object
from konverge.reconcilers.apps.operations.waiting.conflicts import TERMINAL
from konverge_testing import Lab

NAME = "ops.vworkspace.io/operation-name"
UID = "ops.vworkspace.io/operation"
FINALIZER = "ops.vworkspace.io/finalizer"
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


VELERO_ENDS = frozenset({"Completed", "Failed", "PartiallyFailed", "FailedValidation", "Deleting"})
WORKFLOW_ENDS = frozenset({"Succeeded", "Failed", "Error"})


def _velero_works(made: Object) -> bool:
    return made.status.get("phase") not in VELERO_ENDS


def _workflow_works(made: Object) -> bool:
    return made.status.get("phase") not in WORKFLOW_ENDS


def _replicates(made: Object) -> bool:
    return bool(made.status.get("lastManualSync") != made.get("spec", "trigger", "manual"))


WORKS: dict[tuple[str, str], Callable[[Object], bool]] = {
    ("batch", "jobs"): job_works,
    ("velero.io", "backups"): _velero_works,
    ("velero.io", "restores"): _velero_works,
    ("argoproj.io", "workflows"): _workflow_works,
    ("volsync.backube", "replicationsources"): _replicates,
    ("volsync.backube", "replicationdestinations"): _replicates,
}
"""The objects that Operations make, and whether one is at work, by the references of the engines and not by the code under test. One that
is being deleted counts until it is gone, but for a Job, whose deletion ends its pods, and a replication, whose deletion ends its mover."""
_STOPPED_BY_DELETION = ("batch", "volsync.backube")


@lru_cache(maxsize=1024)
def _decoded(raw: bytes) -> dict[str, Any]:
    """Decode an object, which the caller must not change: the result is cached, since a write changes a single object."""
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


class Safety:
    """The invariants, checked after every write."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: dict[str, set[str]] = {}
        self._phases: dict[str, str] = {}
        self._types: dict[str, tuple[str, str, bool]] = {}
        self._held: set[str] = set()
        self._freed: set[str] = set()
        """Operations whose finalizer another client removed: their engines go on without them."""
        lab.always.append(self.check)

    def _stored(self, group: str, plural: str) -> list[dict[str, Any]]:
        return [_decoded(entry.raw) for entry in self._lab.server.store.list((group, plural))]

    def check(self) -> None:
        working = self._operations()
        for (group, plural), works in WORKS.items():
            for made in map(Object, self._stored(group, plural)):
                uid = made.metadata.label(UID)
                if not uid or uid not in self._types:
                    continue
                name = made.metadata.annotation(NAME)
                writers = made.get("metadata", "managedFields", default=[])
                if any(
                    one.get("manager") == "konverge" for one in writers
                ):  # not a copy that Velero created from its bucket
                    self._made.setdefault(uid, set()).add(made.metadata.uid)
                    assert len(self._made[uid]) == 1, f"{name} has had {len(self._made[uid])} objects"
                if (
                    uid not in self._freed
                    and works(made)
                    and not (made.metadata.deleting and group in _STOPPED_BY_DELETION)
                ):
                    working.append((*self._types[uid], f"{name} ({plural})"))
        for place, (target, type_, alone, name) in enumerate(working):
            for where, other_type, other_alone, other in working[place + 1 :]:
                excludes = alone or other_alone or frozenset((type_, other_type)) in APART
                assert not (target == where and excludes), f"{name} and {other} are at work at once"

    def _operations(self) -> list[tuple[str, str, bool, str]]:
        """Check the phases; returns the running Operations that have no object of their own."""
        working = []
        for one in self._stored("ops.vworkspace.io", "operations"):
            status = one.get("status") or {}
            uid, now = one["metadata"]["uid"], status.get("phase", "")
            exclusive = one["spec"].get("parameters", {}).get("exclusive") is True
            self._types[uid] = (one["spec"]["targetRef"]["name"], one["spec"]["type"], exclusive)
            before = self._phases.get(uid, "")
            assert before not in TERMINAL or now == before, f"{one['metadata']['name']} went from {before} to {now}"
            self._phases[uid] = now
            if FINALIZER in one["metadata"].get("finalizers", ()):
                self._held.add(uid)
            elif uid in self._held and "deletionTimestamp" not in one["metadata"]:
                self._freed.add(uid)
            if one["spec"]["engine"] == "helm" and (status.get("engineRef") or {}).get("uid") and now not in TERMINAL:
                working.append((*self._types[uid], f"{one['metadata']['name']} (helm)"))
        return working
