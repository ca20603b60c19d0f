"""The rights that a controller lacks, as its reconciles meet them.

A missing right to list or watch appears in the informer, a missing right to create, patch or delete in a reconcile. The denial keeps the
controller from being ready until its key reconciles again, or is deleted, or the process no longer leads.

In controller-runtime one missing right keeps every controller from its work: https://github.com/kubernetes-sigs/controller-runtime/issues/1653
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from konverge.client import missing_rule
from konverge.errors import Forbidden, RetryAfter
from konverge.keys import Key
from konverge.runtime.observability.readiness import Obstacle

__all__ = ["Denials"]


class Denials:
    """RBAC denials seen by one controller, by key. Constructing it does nothing."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self.by_key: dict[Key, str] = {}
        """The missing rule of each key, as JSON."""
        self._keys: Counter[str] = Counter()
        self._obstacles: dict[str, Obstacle] = {}

    def note(self, key: Key, error: BaseException | None) -> dict[str, Any] | None:
        """Record how a reconcile ended; return the rule that it lacked, None if it lacked none.

        A RetryAfter that was raised from the denial only chooses the delay.
        """
        if isinstance(error, RetryAfter) and isinstance(error.__cause__, Forbidden):
            error = error.__cause__
        rule = missing_rule(error)
        if rule is None:
            self.forget(key)
            return None
        what = json.dumps(rule, sort_keys=True)
        if self.by_key.get(key) != what:
            self.forget(key)
            self.by_key[key] = what
            self._keys[what] += 1
            resource = next(iter(rule.get("resources") or rule.get("nonResourceURLs") or ("",)))
            self._obstacles.setdefault(what, Obstacle(resource, "Forbidden", f"{error}; met by {key}", rule))
            self._changed()
        return rule

    def forget(self, key: Key) -> None:
        """Drop the denial of a key that was reconciled or deleted."""
        what = self.by_key.pop(key, None)
        if what is None:
            return
        self._keys[what] -= 1
        if not self._keys[what]:
            del self._keys[what], self._obstacles[what]
            self._changed()

    def clear(self) -> None:
        """Drop all denials: this process does not reconcile their keys any more, so it would never learn of a right that is granted."""
        self.by_key.clear()
        self._keys.clear()
        if self._obstacles:
            self._obstacles.clear()
            self._changed()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """One obstacle for each rule that is missing at present."""
        return tuple(self._obstacles.values())
