"""The rules of the probes and hooks of a container.

Source: `pkg/apis/core/validation/validation.go` (validateProbe, validateHandler).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, required
from konverge_testing.apiserver.strategies.rules import (
    Rule,
    among,
    at,
    given,
    must,
    need,
    not_negative,
    port,
    struct,
    text,
)

__all__ = ["lifecycle_errors", "port_or_name", "probe_errors"]


def port_or_name(value: Any, path: str) -> Errors:
    """Check a port that is a number or a name."""
    return (text(texts.port_name) if isinstance(value, str) else port)(value, path)


def _headers(headers: list[Data] | None, path: str) -> Errors:
    check = text(texts.header_name)
    return [error for header in headers or () for error in check(header.get("name"), path)]


_HANDLERS: Final[Mapping[str, Rule]] = {
    "exec": need("command"),
    "httpGet": struct(at("port", port_or_name), at("scheme", among("HTTP", "HTTPS")), at("httpHeaders", _headers)),
    "tcpSocket": at("port", port_or_name),
    "grpc": at("port", port_or_name),
}
_numbers: Final = not_negative("initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold")
_grace: Final = given("terminationGracePeriodSeconds", must(lambda seconds: seconds > 0, "must be greater than 0"))


def _handler_errors(handler: Data, path: str, grace: int | None) -> Errors:
    """Check that a probe or a hook has one action."""
    kinds = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if kind in handler]
    if not kinds:
        return [required(path, "must specify a handler type")]
    action, here = handler[kinds[0]], f"{path}.{kinds[0]}"
    if kinds[0] == "sleep":
        seconds = action.get("seconds", 0)
        words = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors = [] if grace is None or 0 <= seconds <= grace else [invalid(here, seconds, words)]
    else:
        errors = _HANDLERS[kinds[0]](action, here)
    return errors + [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in kinds[1:]]


def lifecycle_errors(container: Data, path: str, grace: int | None) -> Errors:
    """Check the hooks of a container."""
    hooks = container.get("lifecycle") or {}
    return [
        error
        for name in ("postStart", "preStop")
        if hooks.get(name) is not None
        for error in _handler_errors(hooks[name], f"{path}.lifecycle.{name}", grace)
    ]


def probe_errors(container: Data, path: str, grace: int | None) -> Errors:
    """Check the probes of a container."""
    errors: Errors = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, here = container.get(name), f"{path}.{name}"
        if probe is None:
            continue
        errors += _handler_errors(probe, here, grace) + _numbers(probe, here) + _grace(probe, here)
        seconds, successes = probe.get("terminationGracePeriodSeconds"), probe.get("successThreshold", 0)
        if name != "readinessProbe" and successes != 1:
            errors.append(invalid(f"{here}.successThreshold", successes, "must be 1"))
        if name == "readinessProbe" and seconds is not None:
            where = f"{here}.terminationGracePeriodSeconds"
            errors.append(invalid(where, seconds, "must not be set for readinessProbes"))
    return errors
