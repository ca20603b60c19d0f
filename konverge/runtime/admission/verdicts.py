"""The verdicts of a handler: `Allow` or `Deny`. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from konverge.errors import UsageError

__all__ = ["Allow", "Deny", "Verdict"]

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
}


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Allow:
    """The write is allowed.

    A mutating webhook's result is `object`, by default `request.object` as the handler left it. `labels` and `annotations` are set on
    it; a value None removes a key. `warnings` are shown to the writer, `audit` is written to the audit log.

    >>> Allow(warnings=("the field schedule is deprecated",)).warnings
    ('the field schedule is deprecated',)
    """

    object: Any = None
    labels: Mapping[str, str | None] = field(default_factory=_nothing, kw_only=True)
    annotations: Mapping[str, str | None] = field(default_factory=_nothing, kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    audit: Mapping[str, str] = field(default_factory=_nothing, kw_only=True)

    def __post_init__(self) -> None:
        """Raise UsageError for a warning that is not in a tuple: it would be shown letter by letter."""
        _check_warnings(self.warnings)

    @property
    def changes(self) -> bool:
        """Whether the verdict requests a change, which only a mutating webhook may."""
        return self.object is not None or bool(self.labels) or bool(self.annotations)


@dataclass(frozen=True, slots=True)
class Deny:
    """The write is denied; the writer sees `message` after the name of the webhook.

    `code` is the HTTP status (400 to 599), `reason` its machine-readable word, by default Kubernetes' reason for the code. `fields`
    has the problem of each wrong field (`{"spec.schedule": "is in the past"}`), for clients that show it.

    >>> Deny("the pool is bound", code=409).reason
    'Conflict'
    """

    message: str
    code: int = field(default=403, kw_only=True)
    reason: str = field(default="", kw_only=True)
    fields: Mapping[str, str] = field(default_factory=_nothing, kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    audit: Mapping[str, str] = field(default_factory=_nothing, kw_only=True)

    def __post_init__(self) -> None:
        """Raise UsageError for a denial without a message or with an invalid code; fill in the reason."""
        if not self.message:
            raise UsageError("Deny(message): say what is wrong and what to do; the writer reads nothing else")
        if not 400 <= self.code <= 599:
            raise UsageError(f"Deny(code={self.code}): a refusal is a status from 400 to 599")
        _check_warnings(self.warnings)
        if not self.reason:
            object.__setattr__(self, "reason", _REASONS.get(self.code, "InternalError" if self.code >= 500 else ""))


def _check_warnings(warnings: object) -> None:
    if isinstance(warnings, str):
        raise UsageError("warnings is a tuple of texts: write warnings=(text,)")


Verdict: TypeAlias = Allow | Deny
