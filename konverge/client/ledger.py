"""The write ledger: the writes of this process, so that a reconcile can wait until its cache shows them.

Guarantees: pure and synchronous; an entry exists before the first byte of its write is sent (`begin`), and is settled when the outcome
is known. Of several writes to one object `pending` returns the decisive write: in flight before unknown before the newest settled.
A write that certainly was not done (`failed`) leaves the state from before it untouched.

Caveats: the ledger knows nothing of other processes. A version may never show up in a cache, so the barrier has a timeout.

Invariants: settled versions of one object only grow (if they can be compared); `seen` with an outdated write changes nothing;
the memory of last writers is bounded and evicts the least recently written object. Objects are identified by group, kind, namespace and
name; the API version of the write does not matter.

The problem, in controller-runtime: https://github.com/kubernetes-sigs/controller-runtime/issues/3320. A store of the same kind in its
controllers: https://github.com/kubernetes-sigs/cluster-api/pull/13720
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import Any

import msgspec

from konverge.kinds import Kind
from konverge.objects import compare_versions

__all__ = ["Ledger", "LedgerStatistics", "PendingWrite", "Write", "WriteState"]


class WriteState(Enum):
    """The state of a write."""

    IN_FLIGHT = "in flight"
    DONE = "done"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write. `version` and `uid` are "" if they are not known; `number` is unique and grows with each write."""

    kind: Kind[Any]
    namespace: str
    name: str
    state: WriteState
    version: str = ""
    uid: str = ""
    number: int = 0


class LedgerStatistics(msgspec.Struct, frozen=True):
    """Counts of what the ledger holds."""

    writers: int
    pending: int
    in_flight: int
    unknown: int
    last_writers: int


class _ObjectKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Identifies a written object. Looked up several times for each write, so its hash is cached."""

    group_kind: str
    namespace: str
    name: str


class _Entry(msgspec.Struct, eq=False, gc=False):
    """The writes of one writer to one object that the cache has not shown yet.

    An entry stays until the writer's next reconcile, so each key that was ever written has an entry. Like everything kept here, it
    cannot be part of a cycle, so the garbage collector tracks neither entries nor dicts of them. `open` is None if no write is in flight:
    an empty dict that had a key takes 224 bytes.
    """

    open: dict[int, Write] | None = None
    forgotten: int = 0
    unknown: Write | None = None
    settled: Write | None = None

    def current(self) -> Write | None:
        """The write that decides whether a cache is up to date."""
        if self.open:
            return self.open[max(self.open)]
        return self.unknown or self.settled

    def close(self, begun: Write, write: Write | None) -> None:
        """Record the outcome of a write (None: certainly not done), unless a later write has replaced it."""
        assert self.open is not None
        del self.open[begun.number]
        if not self.open:
            self.open = None
        if write is None or begun.number <= self.forgotten:
            return
        if write.state is not WriteState.UNKNOWN:
            if self.settled is None or _newer(write, self.settled):
                self.settled = write
        elif self.unknown is None or self.unknown.number < write.number:
            self.unknown = write
        if self.unknown is not None and self.settled is not None and self.unknown.number < self.settled.number:
            self.unknown = None

    def seen(self, write: Write) -> None:
        """Drop this write if it is still the current one."""
        if self.current() != write:
            return
        if self.unknown == write:
            self.unknown = None
        else:
            self.settled = None

    def forget(self) -> None:
        """Drop everything; writes in flight are dropped when they close."""
        self.settled = self.unknown = None
        self.forgotten = max(self.open or (), default=0)


def _newer(write: Write, before: Write) -> bool:
    if write.state is WriteState.DONE and before.state is WriteState.DONE and write.uid == before.uid:
        order = compare_versions(write.version, before.version)
        if order is not None and order != 0:
            return order > 0
    return write.number > before.number


class PendingWrite:
    """A write that has begun and is settled once: only the first call of a method has an effect."""

    __slots__ = ("_before", "_ledger", "_object", "_write", "_writer", "closed")

    def __init__(
        self, ledger: Ledger, writer: Hashable, target: _ObjectKey, write: Write, before: Hashable | None
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._object = target
        self._write = write
        self._before = before
        self.closed = False

    def settle(self, version: str, uid: str, name: str = "") -> None:
        """Record that the write was done and stored this version; `name` is given if the server generated it."""
        begun = self._write
        self._close(Write(begun.kind, begun.namespace, name or begun.name, WriteState.DONE, version, uid, begun.number))

    def deleted(self, uid: str) -> None:
        """Record that the object of this uid no longer exists."""
        self._close(msgspec.structs.replace(self._write, state=WriteState.DELETED, uid=uid))

    def unknown(self) -> None:
        """Record that the outcome is unknown: the write was cancelled, timed out or cut off."""
        self._close(msgspec.structs.replace(self._write, state=WriteState.UNKNOWN))

    def failed(self) -> None:
        """Record that the write certainly was not done."""
        self._close(None)

    def _close(self, write: Write | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._ledger._close_write(self._writer, self._object, self._write, write, self._before)


def _key_of(kind: Kind[Any], namespace: str, name: str) -> _ObjectKey:
    return _ObjectKey(kind.group_kind, namespace, name)


class Ledger:
    """The writes of this process by writer (a controller and key) and object.

    >>> from konverge.kinds import kind
    >>> ledger = Ledger()
    >>> pending = ledger.begin("backup", kind("v1", "Secret"), "web", "target")
    >>> ledger.pending("backup")[0].state
    <WriteState.IN_FLIGHT: 'in flight'>
    >>> pending.settle("42", "uid-1")
    >>> ledger.pending("backup")[0].version
    '42'
    """

    def __init__(self, *, max_last_writers: int = 65536) -> None:
        self._max_last_writers = max_last_writers
        self._entries: dict[Hashable, dict[_ObjectKey, _Entry]] = {}
        self._last_writers: OrderedDict[_ObjectKey, Hashable] = OrderedDict()
        # Dicts as ordered sets: the garbage collector does not track a dict of untracked values.
        self._written: dict[Hashable, dict[_ObjectKey, None]] = {}
        self._number = 0

    def begin(self, writer: Hashable, kind: Kind[Any], namespace: str, name: str) -> PendingWrite:
        """Record, before the first byte is sent, that this writer is about to write this object."""
        self._number += 1
        write = Write(kind, namespace, name, WriteState.IN_FLIGHT, number=self._number)
        target = _key_of(kind, namespace, name)
        entry = self._entries.setdefault(writer, {}).setdefault(target, _Entry())
        if entry.open is None:
            entry.open = {write.number: write}
        else:
            entry.open[write.number] = write
        before = self._last_writers.get(target)
        if name:
            self._set_last_writer(target, writer)
        return PendingWrite(self, writer, target, write, before)

    def pending(self, writer: Hashable) -> tuple[Write, ...]:
        """Return the writes of this writer that its cache has not shown yet, at most one per object, oldest first."""
        entries = self._entries.get(writer)
        if entries is None:
            return ()
        if len(entries) == 1:  # nearly always: the object's own status
            (entry,) = entries.values()
            write = entry.current()
            return () if write is None else (write,)
        writes = (entry.current() for entry in entries.values())
        return tuple(sorted((write for write in writes if write is not None), key=lambda write: write.number))

    def seen(self, writer: Hashable, write: Write) -> None:
        """Drop this write: the cache shows it, or the barrier timed out.

        A write in flight stays; a write that a later write has replaced drops nothing.
        """
        target = _key_of(write.kind, write.namespace, write.name)
        entry = self._entries.get(writer, {}).get(target)
        if entry is not None and write.state is not WriteState.IN_FLIGHT:
            entry.seen(write)
            self._drop(writer, target)

    def writer_of(self, kind: Kind[Any], namespace: str, name: str) -> Hashable | None:
        """Return the last writer of this object within this process; None if there was none or it was evicted."""
        return self._last_writers.get(_key_of(kind, namespace, name))

    def forget(self, writer: Hashable) -> None:
        """Drop the writes of a writer, and the writer as last writer; writes in flight stay pending until they close."""
        for target, entry in list(self._entries.get(writer, {}).items()):
            entry.forget()
            self._drop(writer, target)
        for target in self._written.pop(writer, ()):
            if self._last_writers.get(target) == writer:
                del self._last_writers[target]

    def statistics(self) -> LedgerStatistics:
        """Count what is held."""
        entries = [entry for entries in self._entries.values() for entry in entries.values()]
        return LedgerStatistics(
            writers=len(self._entries),
            pending=sum(1 for entry in entries if entry.current() is not None),
            in_flight=sum(len(entry.open or ()) for entry in entries),
            unknown=sum(1 for entry in entries if entry.unknown is not None),
            last_writers=len(self._last_writers),
        )

    def _close_write(
        self, writer: Hashable, target: _ObjectKey, begun: Write, write: Write | None, before: Hashable | None
    ) -> None:
        entry = self._entries[writer][target]
        if write is not None and write.name != begun.name:
            entry.close(begun, None)
            self._record_created(writer, write)
        else:
            entry.close(begun, write)
        if write is None:
            self._restore_last_writer(target, writer, before)
        elif write.state is WriteState.DELETED:
            self._unset_last_writer(target, writer)
        self._drop(writer, target)

    def _record_created(self, writer: Hashable, write: Write) -> None:
        """Record a create with generateName under the name that the server chose."""
        target = _key_of(write.kind, write.namespace, write.name)
        entry = self._entries.setdefault(writer, {}).setdefault(target, _Entry())
        entry.open = {**(entry.open or {}), write.number: write}
        entry.close(write, write)
        self._set_last_writer(target, writer)

    def _drop(self, writer: Hashable, target: _ObjectKey) -> None:
        entries = self._entries.get(writer)
        if entries is None:
            return
        entry = entries.get(target)
        if entry is not None and not entry.open and entry.current() is None:
            del entries[target]
        if not entries:
            del self._entries[writer]

    def _set_last_writer(self, target: _ObjectKey, writer: Hashable) -> None:
        if self._last_writers.get(target) == writer:
            self._last_writers.move_to_end(target)
            return
        self._unset_last_writer(target, None)
        self._last_writers[target] = writer
        self._written.setdefault(writer, {})[target] = None
        while len(self._last_writers) > self._max_last_writers:
            oldest, evicted = self._last_writers.popitem(last=False)
            self._forget_written(evicted, oldest)

    def _unset_last_writer(self, target: _ObjectKey, writer: Hashable | None) -> None:
        """Forget the last writer of an object; with `writer`, only if that writer was the last."""
        last = self._last_writers.get(target)
        if last is None or (writer is not None and last != writer):
            return
        del self._last_writers[target]
        self._forget_written(last, target)

    def _restore_last_writer(self, target: _ObjectKey, writer: Hashable, before: Hashable | None) -> None:
        entry = self._entries.get(writer, {}).get(target)
        if self._last_writers.get(target) != writer or before == writer or (entry is not None and entry.open):
            return
        self._unset_last_writer(target, writer)
        if before is not None:
            self._set_last_writer(target, before)

    def _forget_written(self, writer: Hashable, target: _ObjectKey) -> None:
        written = self._written.get(writer)
        if written is not None:
            written.pop(target, None)
            if not written:
                del self._written[writer]
