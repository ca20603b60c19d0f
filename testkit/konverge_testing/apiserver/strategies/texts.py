"""Texts with their own rules in built-in kinds, beyond names and labels (`schemas.names`): keys, ports, headers, percentages.

Guarantees: pure; each check returns the server's messages, [] for a valid text; patterns are compiled on first use. Source:
k8s.io/apimachinery `pkg/util/validation`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

__all__ = [
    "config_key",
    "env_name",
    "header_name",
    "percent",
    "port_name",
    "underscored_subdomain",
    "wildcard_subdomain",
]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + "(\\." + _LABEL + ")*"
_WILDCARD_TEXT: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_UNDERSCORED: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_CONFIG_KEY_TEXT: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_HEADER_TEXT: Final = "a valid HTTP header must consist of alphanumeric characters or '-'"
_PERCENT_TEXT: Final = "a valid percent string must be a numeric string followed by an ending '%'"
_ENV_TEXT: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _matches(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


def _form(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def wildcard_subdomain(value: str) -> list[str]:
    """Check a DNS subdomain that starts with `*.`."""
    errors = [_too_long(253)] if len(value) > 253 else []
    pattern = "\\*\\." + _SUBDOMAIN
    return errors if _matches(pattern, value) else [*errors, _form(_WILDCARD_TEXT, pattern, "*.example.com")]


def underscored_subdomain(value: str) -> list[str]:
    """Check a DNS subdomain whose labels may hold underscores."""
    errors = [_too_long(253)] if len(value) > 253 else []
    pattern = f"{_UNDERSCORED}(\\.{_UNDERSCORED})*"
    return errors if _matches(pattern, value) else [*errors, _form(_UNDERSCORED_TEXT, pattern, "example.com")]


def config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    errors = [_too_long(253)] if len(value) > 253 else []
    if not _matches("[-._a-zA-Z0-9]+", value):
        errors.append(_form(_CONFIG_KEY_TEXT, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name(value: str) -> list[str]:
    """Check the name of an environment variable."""
    errors = [] if value else ["environment variable name must be non-empty"]
    if any(not " " <= letter <= "~" or letter == "=" for letter in value):
        errors.append(_ENV_TEXT)
    return errors


def header_name(value: str) -> list[str]:
    """Check the name of an HTTP header."""
    return [] if _matches("[-A-Za-z0-9]+", value) else [_form(_HEADER_TEXT, "[-A-Za-z0-9]+", "X-Header-Name")]


def port_name(value: str) -> list[str]:
    """Check the name of a port (IANA_SVC_NAME)."""
    errors = [_too_long(15)] if len(value) > 15 else []
    if not _matches("[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def percent(value: str) -> list[str]:
    """Check a percentage such as `25%`."""
    return [] if _matches("[0-9]+%", value) else [_form(_PERCENT_TEXT, "[0-9]+%", "1%", "93%")]
