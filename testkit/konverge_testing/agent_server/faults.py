"""Faults of a control plane: the next requests that match a rule get a status, are cut, or wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Fault", "Faults"]


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule, for the next `times` requests whose path ends with `path`.

    `status` is the response's status, with `body` if given, and the request has no effect; `cut` ends the connection before the request is
    carried out, or after it (its response is lost); `delay` seconds pass first. `body` without `status` replaces the body of a successful
    response.
    """

    path: str = ""
    method: str = ""
    status: int = 0
    reason: str = ""
    retry_after: float | None = None
    cut: Literal["", "before", "after"] = ""
    delay: float = 0.0
    body: bytes | None = None
    times: int = 1

    def matches(self, method: str, path: str) -> bool:
        """Return whether the rule concerns a request."""
        return self.times > 0 and self.method in ("", method) and path.endswith(self.path)


class Faults:
    """The rules in force; of those that match, the oldest is used up first.

    >>> faults = Faults()
    >>> faults.add(path="/ack", cut="after")
    >>> faults.take("POST", "/api/agent/jobs/1/ack").cut
    'after'
    """

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(
        self,
        *,
        path: str = "",
        method: str = "",
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        cut: Literal["", "before", "after"] = "",
        delay: float = 0.0,
        body: bytes | None = None,
        times: int = 1,
    ) -> None:
        """Add a rule."""
        self._rules.append(
            Fault(
                path=path,
                method=method,
                status=status,
                reason=reason,
                retry_after=retry_after,
                cut=cut,
                delay=delay,
                body=body,
                times=times,
            )
        )

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def take(self, method: str, path: str) -> Fault:
        """Use up a rule for this request; returns a fault without effect if no rule matches."""
        for rule in self._rules:
            if rule.matches(method, path):
                rule.times -= 1
                return rule
        return Fault()
