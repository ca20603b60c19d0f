"""Timeouts, limits and intervals of a client, each with its unit and the reason for its default."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from konverge.errors import UsageError

__all__ = ["ClientSettings", "FieldValidation"]

FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""How the API server treats unknown and repeated fields of a write."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Timeouts, retries, concurrency and paging of a client.

    >>> ClientSettings(request_timeout=10).connect_timeout
    5.0
    """

    request_timeout: float = 30.0
    """Seconds for one attempt, from the request for a connection to the last byte of the response. A page of 500 large objects takes
    about 2 s; kube-apiserver gives up on a request after 60 s itself."""

    connect_timeout: float = 5.0
    """Seconds for TCP and TLS together. A healthy server needs milliseconds; a dead load balancer must not use up a whole attempt."""

    call_timeout: float = 60.0
    """Seconds for one call with all its attempts, the waits between them and the wait for a free slot."""

    attempts: int = 5
    """Attempts per call, the first included. With the backoff below they span about 3 s; longer outages are retried by the
    caller's work queue."""

    backoff_start: float = 0.2
    """Seconds before the second attempt, unless the server sent Retry-After."""

    backoff_limit: float = 5.0
    """The longest wait between two attempts in seconds, unless the server sent Retry-After."""

    max_in_flight: int = 32
    """Calls on the wire at once, watches excepted. API Priority and Fairness gives an ordinary client a few dozen seats; more
    would only queue inside the server."""

    page_size: int = 500
    """Objects per page of a list, the default of client-go's pager."""

    discovery_seconds: float = 600.0
    """Seconds that a discovery response is cached. A 404 on a path that it gave drops it at once."""

    discovery_absent_seconds: float = 5.0
    """Seconds that "not served" is cached. Short, because the CRD is often applied next."""

    max_line_bytes: int = 64 * 1024 * 1024
    """The longest line of a watch, in bytes. etcd's default allows objects of 1.5 MiB, and operators raise it; only a broken server sends a
    line above this limit."""

    keepalive_idle: float = 30.0
    """Seconds without traffic after which TCP probes the other end; load balancers forget silent connections after 60 s and more."""

    tcp_user_timeout: float = 30.0
    """Seconds that sent bytes may stay unacknowledged before the kernel gives the connection up (Linux)."""

    pool_idle: float = 15.0
    """Seconds that an unused connection is kept. Below the 90 s of kube-apiserver, so that the server rarely closes first."""

    compression: bool = False
    """Whether to accept gzip. Inside a data centre compression takes longer than the transfer; enable it for a slow link."""

    field_validation: FieldValidation = "Strict"
    """How the API server treats a write that holds a field which the kind does not have: Strict refuses the write (400), Warn drops the
    field and warns, Ignore drops the field. It has no effect on applies to custom resources and on JSON patches."""

    def __post_init__(self) -> None:
        if self.field_validation not in get_args(FieldValidation):
            choices = ", ".join(get_args(FieldValidation))
            raise UsageError(f"ClientSettings(field_validation={self.field_validation!r}): it is one of {choices}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("compression", "field_validation") and not value > 0:
                raise UsageError(f"ClientSettings({field.name}={value!r}): it must be above zero")
