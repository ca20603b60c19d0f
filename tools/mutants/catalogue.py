"""The planted faults: what is changed in a copy of the tree, what that breaks, and where to look first. Data, and the pure function that plants one.

Promises: `old` stands exactly once in its file, so a change of the tree that a mutant no longer fits is seen at once (`tests/meta/test_mutants.py`). Each
mutant is a fault that somebody might really make, and breaks a promise that users would miss; none changes the code that tests it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MUTANTS", "STORIES", "Mutant", "mutated"]

STORIES: Final = (
    "backup",
    "bucket",
    "guarded",
    "sites",
    "takeover",
    "hold",
    "errands",
    "badge",
    "strangers",
    "shelf",
    "budget",
    "mover",
    "namesakes",
)
"""The stories of `scenarios.py`, in the order in which they are tried."""

QUEUE: Final = "konverge/workqueue/"
INFORMERS: Final = "konverge/informers/"
RUNTIME: Final = "konverge/runtime/"
CLIENT: Final = "konverge/client/"
APPS: Final = "konverge/reconcilers/apps/"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault. `stories` and `hints` (parts of names of plans) only say where to look first."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    stories: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


def mutated(text: str, mutant: Mutant) -> str:
    """Return the file with the fault in it. Raises ValueError where the mutant does not fit the file."""
    times = text.count(mutant.old)
    if times != 1 or mutant.old == mutant.new:
        raise ValueError(f"mutant {mutant.name}: its old text stands {times} times in {mutant.file}, not once")
    return text.replace(mutant.old, mutant.new)


_QUEUE: Final = (
    Mutant(
        "queue-rerun-lost",
        "what was added while a key was in work is never run",
        QUEUE + "core.py",
        "        if entry is not None and entry.state is State.HELD:\n            self._lanes.push(entry)\n",
        "        if entry is not None and entry.state is State.HELD:\n            del self._waiting[key]\n            self._count(entry.priority, -1)\n",
        ("sites",),
    ),
    Mutant(
        "queue-double-run",
        "a key that is in work is handed to a second worker",
        QUEUE + "core.py",
        "        if entry.key in self._working:\n            entry.state = State.HELD\n",
        "        if entry.key in self._working and entry.more:\n            entry.state = State.HELD\n",
        ("sites",),
    ),
    Mutant(
        "queue-later-add-wins",
        "an event does not bring a delayed run forward",
        QUEUE + "core.py",
        "            if at < entry.due:\n",
        "            if at < entry.due and entry.due == math.inf:\n",
        ("errands",),
    ),
    Mutant(
        "queue-retry-lost",
        "a failed key is counted and not run again",
        QUEUE + "core.py",
        "        self._add(key, now, at, Wait.BACKOFF, reason, priority)\n        return at\n",
        "        return at\n",
        ("backup",),
        ("is answered with 422", "is answered with 409"),
    ),
    Mutant(
        "queue-delay-lost",
        "a run that was asked for at a time does not come",
        QUEUE + "core.py",
        "        self._add(key, now, now + max(0.0, delay), Wait.DELAY, reason, priority)\n",
        "        if delay <= 0:\n            self._add(key, now, now, Wait.DELAY, reason, priority)\n",
        ("bucket",),
    ),
    Mutant(
        "queue-timer-asleep",
        "a delayed key becomes ready and no worker is woken",
        QUEUE + "queue.py",
        "        self._core.advance(self._now())\n        self._settle()\n",
        "        self._core.advance(self._now())\n        self._set_timer(self._core.next_at())\n",
        ("bucket",),
    ),
    Mutant(
        "queue-timer-not-moved",
        "an earlier time does not move the timer forward",
        QUEUE + "queue.py",
        "            if at is not None and timer.when() <= at:\n",
        "            if at is not None:\n",
        ("errands",),
    ),
    Mutant(
        "queue-failures-kept",
        "success does not reset the backoff of a key",
        QUEUE + "backoff.py",
        '        """Drop count and deadline of the key."""\n        self._deadlines.pop(key, None)\n        self._limiter.forget(key)\n',
        '        """Drop count and deadline of the key."""\n        self._limiter.failures(key)\n',
        ("backup",),
        ("is answered with 422",),
    ),
    Mutant(
        "queue-backoff-lost",
        "a failed key is retried at once, again and again",
        QUEUE + "backoff.py",
        "            deadline = self._deadlines[key] = now + max(0.0, self._limiter.when(key, now))\n",
        "            self._limiter.when(key, now)\n            deadline = self._deadlines[key] = now\n",
        ("backup",),
        ("the right on configmaps",),
    ),
    Mutant(
        "queue-timetable-order",
        "an entry that is moved to an earlier time keeps the later one",
        QUEUE + "timetable.py",
        "        if entry.ticket and at >= entry.ready_at:\n            entry.ready_at = at\n            return\n",
        "        if entry.ticket:\n            return\n",
        ("badge",),
    ),
)

_INFORMERS: Final = (
    Mutant(
        "store-update-lost",
        "a change of an object that the cache has is ignored",
        INFORMERS + "store.py",
        "            if held is None or not held.same(cached):\n",
        "            if held is None or held.uid != cached.uid:\n",
        ("backup",),
    ),
    Mutant(
        "store-delete-lost",
        "a deletion leaves the object in the cache",
        INFORMERS + "store.py",
        "            if cached is None:\n                old = contents.drop(namespace, name)\n                if old is not None:\n                    changed",
        "            if cached is None:\n                old = contents.table.get(namespace, _EMPTY).get(name)\n                if old is not None:\n                    changed",
        ("sites",),
    ),
    Mutant(
        "store-delete-untold",
        "a deletion is stored and nobody is told",
        INFORMERS + "store.py",
        "                if old is not None:\n                    changed.append(Difference(namespace, name, old, None))\n                continue\n",
        "                continue\n",
        ("backup",),
        ("delete by hand",),
    ),
    Mutant(
        "relist-forgets-deletions",
        "what was deleted between two lists is not told",
        INFORMERS + "store.py",
        "            if name not in now:\n                yield Difference(namespace, name, old, None)\n",
        "            if name not in now:\n                continue\n",
        ("backup",),
        ("events of secrets from",),
    ),
    Mutant(
        "relist-keeps-deleted",
        "a new list does not remove from the cache what it no longer holds",
        INFORMERS + "store.py",
        "        before = store._contents.table\n        # An index",
        "        before = store._contents.table\n        for where, inner in before.items():\n            for name, cached in inner.items():\n"
        "                if name not in staging.contents.table.get(where, _EMPTY):\n                    staging.contents.put(where, name, cached)\n        # An index",
        ("backup",),
        ("events of secrets from",),
    ),
    Mutant(
        "relist-untold",
        "what changed between two lists is stored and nobody is told",
        INFORMERS + "mirror.py",
        "            await self._tell(difference(before, staging.table))\n",
        "            pass\n",
        ("backup",),
        ("before a new list", "410"),
    ),
    Mutant(
        "index-keeps-moved",
        "an object stays in the index under a value that it no longer has",
        INFORMERS + "index.py",
        "        path = (namespace, name)\n        self._remove(path, self._values.pop(path, ()))\n",
        "        path = (namespace, name)\n        self._remove(path, self._values.get(path, ())[1:])\n",
        ("sites",),
    ),
    Mutant(
        "expired-not-relisted",
        "410 to a watch is answered by the same watch again",
        INFORMERS + "machine.py",
        "            if state.moved:\n                return _round(after, at, Restarted(given.cause))\n",
        "            if state.moved:\n                return _rest(state, at, given)\n",
        ("backup",),
        ("before a new list",),
    ),
    Mutant(
        "expired-skips-ahead",
        "410 to a watch is answered by a watch of what comes from now on",
        INFORMERS + "machine.py",
        "            if state.moved:\n                return _round(after, at, Restarted(given.cause))\n",
        '            if state.moved:\n                return _watch(_change(after, last_rv=""), at, Restarted(given.cause))\n',
        ("backup",),
        ("events of secrets from", "410 on the watch of secrets"),
    ),
    Mutant(
        "cut-skips-ahead",
        "a watch that broke goes on from now, not from where it stood",
        INFORMERS + "machine.py",
        "def _watch_again(state: State, _: Woke, at: Moment) -> Result:\n    return _watch(state, at)\n",
        'def _watch_again(state: State, _: Woke, at: Moment) -> Result:\n    return _watch(_change(state, last_rv=""), at)\n',
        ("backup",),
        ("breaks inside", "partition"),
    ),
    Mutant(
        "cut-for-ever",
        "a watch that broke is not opened again",
        INFORMERS + "machine.py",
        "    (Phase.WATCHING, Woke): _watch_again,\n",
        "    (Phase.WATCHING, Woke): lambda state, given, at: (state, (Wait(3600.0),)),\n",
        ("backup",),
        ("breaks inside",),
    ),
    Mutant(
        "reflector-without-pause",
        "what fails is asked for again at once",
        INFORMERS + "machine.py",
        "    return _change(state, backoff=backoff), (*told, Wait(seconds))\n",
        "    return _change(state, backoff=backoff), (*told, Wait(0.0))\n",
        ("backup",),
        ("partition", "the right on"),
    ),
    Mutant(
        "gone-kind-kept",
        "the objects of a kind that is no longer served stay in the cache",
        INFORMERS + "machine.py",
        "    return after, (Discard(), Empty(), Troubled(",
        "    return after, (Discard(), Troubled(",
        ("shelf",),
    ),
    Mutant(
        "bookmark-swallows-events",
        "events that came in one read with a bookmark are lost",
        INFORMERS + "decode.py",
        '            if deltas:\n                inputs.append(Items(deltas, version, added))\n                deltas, added = [], False\n            if what == "BOOKMARK":\n',
        '            deltas, added = [], False\n            if what == "BOOKMARK":\n',
        ("backup",),
        ("bookmarks",),
    ),
    Mutant(
        "delivery-replaced-as-changed",
        "an object that was replaced by another of its name counts as changed",
        INFORMERS + "delivery.py",
        "            if old is not None and new is not None and old.uid != new.uid:\n",
        "            if old is not None and new is not None and old.uid == new.name:\n",
        ("bucket",),
        ("before a new list", "stale view"),
    ),
    Mutant(
        "delivery-merge-lost",
        "a change that is merged into a waiting one takes that one with it",
        INFORMERS + "delivery.py",
        "        if new is None if held.old is None else new is not None and held.old.same(new):\n",
        "        if new is None if held.old is None else new is not None:\n",
        ("backup",),
        ("stale view", "late"),
    ),
    Mutant(
        "synced-too-early",
        "a controller works before its caches are complete",
        RUNTIME + "feeds.py",
        "            while not feed.registration.has_synced:\n",
        "            while not feed.registration.has_synced and feed.watch is None:\n",
        ("strangers",),
    ),
)

_LEDGER: Final = (
    Mutant(
        "barrier-off",
        "a pass acts on a cache that does not show its own writes",
        RUNTIME + "barrier.py",
        "            return View.UNWATCHED if shows is None else View.SHOWN if shows else View.BEHIND\n",
        "            return View.UNWATCHED if shows is None else View.SHOWN\n",
        ("backup",),
        ("is 5 s late",),
    ),
    Mutant(
        "barrier-swallows-pass",
        "a pass that waits for the cache is never taken up again",
        RUNTIME + "controller.py",
        "        self.queue.add_after(key, pause(waited), reason=Why.BARRIER, priority=item.priority)\n",
        "",
        ("backup",),
        ("is 5 s late",),
    ),
    Mutant(
        "ledger-never-settled",
        "the answer to a write is not noted",
        CLIENT + "client.py",
        "            else:\n                ticket.settle(stored.version, stored.uid, stored.name)\n",
        "",
        ("backup",),
    ),
    Mutant(
        "ledger-failure-in-flight",
        "a write that failed counts as under way for ever",
        CLIENT + "client.py",
        "                else:\n                    ticket.failed()\n",
        "                elif ticket.closed:\n                    ticket.failed()\n",
        ("backup",),
        ("is answered with 422",),
    ),
    Mutant(
        "ledger-of-the-gone",
        "what a deleted object's passes wrote is remembered for ever",
        RUNTIME + "controller.py",
        "        self._around.client.ledger.forget(self._passes.actor(key))\n",
        "",
        ("sites",),
    ),
    Mutant(
        "delete-without-uid",
        "a deletion hits whatever has the name by now",
        CLIENT + "requests.py",
        '    conditions = {"uid": uid, "resourceVersion": resource_version}\n',
        '    conditions = {"resourceVersion": resource_version}\n',
        ("takeover",),
        ("stale view of configmaps", "configmaps is 5 s late"),
    ),
)

_STATUS: Final = (
    Mutant(
        "condition-dropped",
        "a condition that a pass does not mark vanishes",
        RUNTIME + "status.py",
        "        self._conditions = kept\n",
        "        self._conditions = ()\n",
        ("backup",),
    ),
    Mutant(
        "generation-before-success",
        "a failed pass claims to have handled the generation",
        RUNTIME + "status.py",
        '        observed = self._previous.get("observedGeneration") if failed else self._generation\n',
        "        observed = self._generation\n",
        ("backup",),
        ("is answered with 422",),
    ),
    Mutant(
        "generation-of-the-past",
        "the status names the generation that was observed before",
        RUNTIME + "status.py",
        '        observed = self._previous.get("observedGeneration") if failed else self._generation\n',
        '        observed = self._previous.get("observedGeneration", self._generation)\n',
        ("backup",),
    ),
    Mutant(
        "condition-of-the-past",
        "a condition that is marked again speaks of the generation that it first spoke of",
        "konverge/conditions.py",
        '            "observed_generation": generation,\n',
        '            "observed_generation": generation if moved or before is None else before.observed_generation,\n',
        ("backup",),
    ),
    Mutant(
        "transition-without-one",
        "each mark moves the transition time",
        "konverge/conditions.py",
        '            "last_transition_time": rfc3339(now) if moved or before is None else before.last_transition_time,\n',
        '            "last_transition_time": rfc3339(now),\n',
        ("backup",),
    ),
    Mutant(
        "status-error-swallowed",
        "a status that could not be written is forgotten",
        RUNTIME + "passes.py",
        "                return ended\n            return error\n        return ended\n",
        "            return ended\n        return ended\n",
        ("backup",),
        ("backups.example.com/status",),
    ),
    Mutant(
        "status-of-the-dead",
        "the status of a deleted object is written to its successor",
        RUNTIME + "passes.py",
        '        metadata = {"name": key.name, "uid": cached.metadata.uid, "resourceVersion": self._version_of(key, cached)}\n',
        '        metadata = {"name": key.name}\n',
        ("errands",),
        ("stale view", "late"),
    ),
    Mutant(
        "echo-hides-late-news",
        "a status that the cache shows too late is taken for an echo, though a pass ran without it",
        RUNTIME + "controller.py",
        "            self._own_versions.forget(key)  # its late",
        "            # its late",
        ("backup",),
        ("stale view of backups.example.com from event 7 on, for 20 s",),
    ),
    Mutant(
        "echo-hides-all",
        "after its first status write an object's changes are taken for echoes",
        RUNTIME + "sources.py",
        "        if change.new.metadata.resource_version in own_versions:\n",
        "        if own_versions:\n",
        ("backup",),
    ),
)

_PASSES: Final = (
    Mutant(
        "error-swallowed",
        "a pass that raised is not retried",
        RUNTIME + "decisions.py",
        '            return Verdict(Action.BACK_OFF, "error", error=ended, unexpected=not isinstance(ended, KonvergeError))\n',
        '            return Verdict(Action.FORGET, "error", error=ended, unexpected=not isinstance(ended, KonvergeError))\n',
        ("backup",),
        ("is answered with 422",),
    ),
    Mutant(
        "requeue-after-lost",
        "RequeueAfter is taken for Done",
        RUNTIME + "controller.py",
        "                queue.add_after(key, verdict.delay, reason=Why.REQUEUE_AFTER, priority=item.priority)\n",
        "",
        ("bucket",),
    ),
    Mutant(
        "retry-after-lost",
        "RetryAfter is not retried",
        RUNTIME + "decisions.py",
        '            return Verdict(Action.ADD_AFTER, "error", ended.delay, error=ended)\n',
        '            return Verdict(Action.FORGET, "error", ended.delay, error=ended)\n',
        ("errands",),
    ),
    Mutant(
        "deferred-events-lost",
        "what happens to an object during its pass is never looked at",
        RUNTIME + "controller.py",
        "            for change in self._deferred.pop(key):\n                self._on_primary(change)\n",
        "            self._deferred.pop(key)\n",
        ("sites",),
    ),
    Mutant(
        "resync-lost",
        "the periodic resync visits nobody",
        RUNTIME + "controller.py",
        "            await self._visit(Why.RESYNC)\n",
        "",
        ("errands",),
    ),
    Mutant(
        "owner-not-woken-by-end",
        "the end of a child does not wake its owner",
        RUNTIME + "sources.py",
        "    asked: set[str] = set()\n    for cached in _sides(change):\n",
        "    asked: set[str] = set()\n    for cached in _sides(change) if change.new is not None else ():\n",
        ("backup",),
        ("delete by hand",),
    ),
    Mutant(
        "watch-not-woken-by-end",
        "the end of a watched object wakes nobody",
        RUNTIME + "sources.py",
        "    asked: set[Key] = set()\n    for cached in _sides(change):\n",
        "    asked: set[Key] = set()\n    for cached in _sides(change) if change.new is not None else ():\n",
        ("backup",),
    ),
    Mutant(
        "life-filtered",
        "a predicate filters what moves an object to the next stage of its life",
        RUNTIME + "sources.py",
        "        if spec.predicate is not None and not life_changed(change, spec.finalizer_name) and not spec.predicate(change):\n",
        "        if spec.predicate is not None and not spec.predicate(change):\n",
        ("bucket",),
    ),
    Mutant(
        "apply-skipped-when-there",
        "an apply is skipped where the object exists",
        RUNTIME + "applier.py",
        "        if unchanged(intent, owned, live):\n",
        "        if owned:\n",
        ("backup",),
    ),
    Mutant(
        "apply-skipped-by-memory",
        "an apply is skipped where the same was applied before, whatever happened since",
        RUNTIME + "applier.py",
        "    return digest(fields) == answer.owned and digest(projection(live, fields)) == answer.values\n",
        "    return bool(fields)\n",
        ("budget",),
    ),
    Mutant(
        "apply-skipped-at-another-version",
        "a child that was found to stand is taken to stand at every later version",
        RUNTIME + "applier.py",
        '    where = "\\0".join((cached.uid, cached.version, *owner)).encode()\n',
        '    where = "\\0".join((cached.uid, *owner)).encode()\n',
        ("backup",),
    ),
    Mutant(
        "apply-ignores-missing-owner",
        "a field that nobody reverted counts as unchanged where we do not own it any more",
        "konverge/fields.py",
        " or len(intent) != below:\n        return False\n    # As many names as fields, and each of them a field: then they are the same ones.\n"
        '    for key, value in intent.items():\n        inner = fields.get(f"f:{key}")\n'
        "        if inner is None or key not in live or not _value_unchanged(value, inner, live[key]):\n",
        ':\n        return False\n    for key, value in intent.items():\n        inner = fields.get(f"f:{key}")\n'
        "        if key not in live or (inner is not None and not _value_unchanged(value, inner, live[key])):\n",
        ("backup",),
        ("take",),
    ),
    Mutant(
        "held-for-ever",
        "an apply that met somebody's field is not tried again when the field changed",
        RUNTIME + "applier.py",
        "    if cached.metadata.uid != refusal.uid or digest(_named_by(intent, cached.data())) != refusal.values:\n        return None\n",
        "    if cached.metadata.uid != refusal.uid:\n        return None\n    if refusal.version:\n        return math.inf\n",
        ("hold",),
    ),
    Mutant(
        "held-is-taken",
        "a field that was to be left to others is taken by force",
        RUNTIME + "applier.py",
        "                force=on_conflict is OnConflict.TAKE,\n",
        "                force=True,\n",
        ("hold",),
    ),
    Mutant(
        "prune-lost",
        "a child that is no longer wanted stays",
        RUNTIME + "children.py",
        "        if not held:\n            applied.changed = await self._prune(keys) or applied.changed\n",
        "        if held:\n            applied.changed = await self._prune(keys) or applied.changed\n",
        ("sites",),
    ),
    Mutant(
        "prune-while-held",
        "children are pruned while another one is held",
        RUNTIME + "children.py",
        "        if not held:\n            applied.changed = await self._prune(keys) or applied.changed\n",
        "        applied.changed = await self._prune(keys) or applied.changed\n",
        ("hold",),
    ),
)

_OWNERS: Final = (
    Mutant(
        "owner-without-controller",
        "an owner reference does not say that it controls",
        RUNTIME + "owners.py",
        '        "controller": True,\n',
        '        "controller": False,\n',
        ("backup",),
    ),
    Mutant(
        "owner-in-another-namespace",
        "a child in another namespace gets an owner that the garbage collector does not honour",
        RUNTIME + "owners.py",
        "    if not owner.namespace or (child_namespaced and child.namespace == owner.namespace):\n",
        "    if not owner.namespace or (child_namespaced and child.namespace):\n",
        ("strangers",),
    ),
    Mutant(
        "stranger-adopted",
        "an object of somebody else that has the child's name is taken over",
        RUNTIME + "owners.py",
        '    if not adopt:\n        raise NotOurs(\n            f"{child} exists and no controller',
        '    if adopt:\n        raise NotOurs(\n            f"{child} exists and no controller',
        ("strangers",),
    ),
    Mutant(
        "finalizer-too-late",
        "an object is worked on before it carries the finalizer",
        RUNTIME + "finalizers.py",
        "    return Step.RECONCILE if held or not finalizer else Step.ADD\n",
        "    return Step.RECONCILE if held or not finalizer or metadata.generation == 1 else Step.ADD\n",
        ("guarded",),
    ),
    Mutant(
        "finalizer-too-early",
        "the finalizer is removed though finalize wants to look again",
        RUNTIME + "passes.py",
        "        if step is Step.FINALIZE and isinstance(ended, Done):\n",
        "        if step is Step.FINALIZE and not isinstance(ended, Exception):\n",
        ("bucket",),
    ),
    Mutant(
        "finalizer-despite-error",
        "the finalizer is removed though finalize raised",
        RUNTIME + "passes.py",
        "        if step is Step.FINALIZE and isinstance(ended, Done):\n",
        "        if step is Step.FINALIZE and isinstance(ended, Done | Exception):\n",
        ("bucket",),
        ("is answered with 422",),
    ),
    Mutant(
        "finalizer-never-removed",
        "the finalizer stays when finalize is done",
        RUNTIME + "passes.py",
        "                await self._remove_finalizer(key, cached, ctx.trace)\n",
        "                pass\n",
        ("bucket",),
    ),
    Mutant(
        "finalizer-of-others-dropped",
        "adding the finalizer drops those of others",
        RUNTIME + "finalizers.py",
        "    if metadata.finalizers:\n        return [\n",
        "    if not metadata.resource_version:\n        return [\n",
        ("guarded",),
    ),
    Mutant(
        "finalizer-conflict-fatal",
        "a finalizer patch that met a change is not tried again",
        RUNTIME + "passes.py",
        '            raise RetryAfter(1, f"{key} changed while its finalizers were patched: {error.message}") from error\n',
        "            return\n",
        ("bucket",),
        ("is answered with 422", "buckets.example.com is 5 s late"),
    ),
)

_APPS: Final = (
    Mutant(
        "apps-source-believed",
        "a URL that Flux has not fetched from is called ready, and its chart the applied one",
        APPS + "verdict.py",
        "        return release is not None and self.reported and not self.sources.hold(release, self.wanted)\n",
        "        return False\n",
        ("mover",),
    ),
    Mutant(
        "apps-source-noted-for-ever",
        "once a release was rolled out, no other source of it is waited for",
        APPS + "sources.py",
        "        return source == wanted.source and (never_fetched or mark == repository.mark)\n",
        "        return never_fetched or mark != wanted.source\n",
        ("mover",),
    ),
    Mutant(
        "apps-upgrade-never-stalls",
        "an upgrade that Flux does not take up is waited for for ever",
        APPS + "decide.py",
        "    return min(time_of(instance.status.last_reconcile_time) or now, now)\n",
        "    return now\n",
        ("mover",),
    ),
    Mutant(
        "apps-stalled-in-motion",
        "Stalled and Reconciling are both True",
        APPS + "translate.py",
        "    return verdict if verdict.stalled is None else replace(verdict, reconciling=_STABLE)\n",
        "    return verdict\n",
        ("mover",),
    ),
    Mutant(
        "apps-values-quoted",
        "a refused value goes from Flux's text into the status",
        APPS + "causes.py",
        "    if condition.reason in _PLAIN or not condition.message:\n",
        "    if condition.reason:\n",
        ("mover",),
    ),
)

_RIVALS: Final = (
    Mutant(
        "apps-rival-unseen",
        "two instances of one Helm release upgrade each other's workload for ever",
        APPS + "contention.py",
        '        return "" if mine else first.name\n',
        '        return ""\n',
        ("namesakes",),
    ),
    Mutant(
        "apps-rival-not-woken",
        "an instance goes on waiting for one that is gone",
        APPS + "contention.py",
        "    if old is None or new is None:\n        return new is None\n",
        "    if old is None or new is None:\n        return False\n",
        ("namesakes",),
    ),
    Mutant(
        "apps-youngest-first",
        "a rival takes a running release from the instance that owns it",
        APPS + "contention.py",
        "    return min(contenders)\n",
        "    return min(contenders, key=lambda one: one.name)\n",
        ("namesakes",),
    ),
)

MUTANTS: Final = (*_QUEUE, *_INFORMERS, *_LEDGER, *_STATUS, *_PASSES, *_OWNERS, *_APPS, *_RIVALS)
