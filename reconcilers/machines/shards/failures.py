"""The failures of calls to a shard, by the possible reaction.

Guarantees: every error of grpclib, of TLS, of the connection and of decoding becomes a `ShardFailure`. Its text names the shard.
"""

from __future__ import annotations

import enum
import ssl

from konverge.errors import KonvergeError
from konverge.os_errors import describe_os_error

__all__ = ["FailureKind", "ShardFailure", "failure_of_code", "failure_of_connection", "failure_of_message"]


class FailureKind(enum.StrEnum):
    """The reaction that a failure calls for."""

    UNREACHABLE = "unreachable"
    """Try again: no response, a response that cannot be read, or a server that is not available."""
    NOT_LEADER = "not leader"
    """Ask the server of another shard."""
    DENIED = "denied"
    """The server refuses the certificate, its role, its tenant or the nonce."""
    NOT_FOUND = "not found"
    INVALID = "invalid"
    """The request itself is refused: repeating it cannot help."""
    FAILED = "failed"
    """The server failed; the code does not show whether a repeat can help."""


_KINDS = {
    "UNAVAILABLE": FailureKind.UNREACHABLE,
    "DEADLINE_EXCEEDED": FailureKind.UNREACHABLE,
    "CANCELLED": FailureKind.UNREACHABLE,
    "RESOURCE_EXHAUSTED": FailureKind.UNREACHABLE,
    "FAILED_PRECONDITION": FailureKind.NOT_LEADER,
    "UNAUTHENTICATED": FailureKind.DENIED,
    "PERMISSION_DENIED": FailureKind.DENIED,
    "NOT_FOUND": FailureKind.NOT_FOUND,
    "INVALID_ARGUMENT": FailureKind.INVALID,
}


class ShardFailure(KonvergeError):
    """A call or stream of a shard failed. `kind` is the reaction, `text` the text of the server or of the connection."""

    def __init__(self, shard: str, kind: FailureKind, text: str) -> None:
        super().__init__(f"shard {shard}: {text}")
        self.shard = shard
        self.kind = kind
        self.text = text


def failure_of_code(shard: str, code: str, text: str) -> ShardFailure:
    """Return the failure of a response with this gRPC code.

    >>> failure_of_code("a", "NOT_FOUND", "instance not found").kind
    <FailureKind.NOT_FOUND: 'not found'>
    """
    return ShardFailure(shard, _KINDS.get(code, FailureKind.FAILED), f"{text or 'no text'} ({code})")


def failure_of_connection(shard: str, error: BaseException, seconds: float) -> ShardFailure:
    """Return the failure of a call without a response."""
    if isinstance(error, TimeoutError):
        return ShardFailure(shard, FailureKind.UNREACHABLE, f"no response within {seconds:g} s")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ShardFailure(
            shard,
            FailureKind.DENIED,
            f"its certificate is refused ({error}): check the authority in the ConfigMap",
        )
    if isinstance(error, ssl.SSLError):
        return ShardFailure(shard, FailureKind.DENIED, f"TLS failed ({error}): check the operator's certificate")
    text = describe_os_error(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return ShardFailure(shard, FailureKind.UNREACHABLE, text)


def failure_of_message(shard: str, error: Exception) -> ShardFailure:
    """Return the failure of a session that ended on a message that does not fit its code."""
    return ShardFailure(shard, FailureKind.FAILED, f"a message could not be used: {type(error).__name__}: {error}")
