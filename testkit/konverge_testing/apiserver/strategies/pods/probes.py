"""Validation of the probes and hooks of a container.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (validateProbe, validateHandler).
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    forbidden,
    invalid,
    missing_in,
    not_negative,
    not_supported,
    required,
    text_errors,
)

__all__ = ["lifecycle_errors", "port_errors", "port_or_name_errors", "probe_errors"]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def lifecycle_errors(container: Data, path: str, grace: int | None) -> Errors:
    """Check the hooks of a container."""
    errors: Errors = []
    for name in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(name)
        if handler is not None:
            errors += _handler_errors(handler, f"{path}.lifecycle.{name}", grace)
    return errors


def _handler_errors(handler: Data, path: str, grace: int | None) -> Errors:
    """Check that a probe or a hook does exactly one thing."""
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    action, here = handler[given[0]], f"{path}.{given[0]}"
    errors: Errors = []
    if given[0] == "exec":
        errors += missing_in(action, here, "command")
    elif given[0] == "sleep":
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(invalid(here, seconds, text))
    else:
        errors += port_or_name_errors(action.get("port", 0), f"{here}.port")
    if given[0] == "httpGet":
        errors += _http_errors(action, here)
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]


def _http_errors(action: Data, path: str) -> Errors:
    errors: Errors = []
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        errors += text_errors(f"{path}.httpHeaders", header.get("name", ""), texts.header_name)
    return errors


def probe_errors(container: Data, path: str, grace: int | None) -> Errors:
    """Check the probes of a container."""
    errors: Errors = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        errors += _handler_errors(probe, here, grace) + not_negative(probe, here, *_PROBE_NUMBERS)
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            errors.append(invalid(f"{here}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            errors.append(invalid(f"{here}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
        if name == "readinessProbe" and seconds is not None:
            errors.append(
                invalid(f"{here}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
            )
    return errors


def port_or_name_errors(port: Any, path: str) -> Errors:
    """Check a port that is a number or a name."""
    return text_errors(path, port, texts.port_name) if isinstance(port, str) else port_errors(port or 0, path)


def port_errors(number: int, path: str) -> Errors:
    """Check the number of a port."""
    return [invalid(path, number, message) for message in texts.between(number, 1, 65535)]
