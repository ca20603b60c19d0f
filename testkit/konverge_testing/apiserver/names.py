"""Rules for names: DNS labels and subdomains, label keys and values, path segments; each rule returns the server's messages.

Guarantees: pure; an empty list means valid. Sources: k8s.io/apimachinery `pkg/util/validation/validation.go`, `pkg/api/validate/content`,
`pkg/api/validation/generic.go`. Lengths are counted in bytes, as Go's `len` does.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

__all__ = [
    "NAME_RULES",
    "dns1035_label",
    "ip_address",
    "dns1123_label",
    "dns1123_subdomain",
    "label_key",
    "label_value",
    "name_errors",
    "path_segment",
]

_LABEL_1123: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"

_LABEL_1123_RE: Final = re.compile(_LABEL_1123)
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)
_LABEL_1035_RE: Final = re.compile(_LABEL_1035)
_KEY_RE: Final = re.compile(_KEY)
_VALUE_RE: Final = re.compile(_VALUE)

_CHARS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _too_many_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _mismatch(words: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"


_SUBDOMAIN_WORDS: Final = _mismatch(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1123_WORDS: Final = _mismatch(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character",
    _LABEL_1123,
    "my-name",
    "123-abc",
)
_LABEL_1035_WORDS: Final = _mismatch(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
    "alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_KEY_WORDS: Final = _mismatch(_CHARS, _KEY, "MyName", "my.name", "123-abc")
_VALUE_WORDS: Final = _mismatch(
    f"a valid label must be an empty string or {_CHARS[5:]}", _VALUE, "MyValue", "my_value", "12345"
)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def dns1123_subdomain(value: str) -> list[str]:
    """Check a lower-case DNS subdomain, the rule of most names."""
    errors = [_too_long(253)] if _bytes(value) > 253 else []
    if not _SUBDOMAIN_RE.fullmatch(value):
        errors.append(_SUBDOMAIN_WORDS)
    return errors


def dns1123_label(value: str) -> list[str]:
    """Check one lower-case DNS label, such as a namespace's name."""
    errors = [_too_long(63)] if _bytes(value) > 63 else []
    if not _LABEL_1123_RE.fullmatch(value):
        errors.append("must not contain dots" if _SUBDOMAIN_RE.fullmatch(value) else _LABEL_1123_WORDS)
    return errors


def dns1035_label(value: str) -> list[str]:
    """Check a DNS label that starts with a letter, such as a service's name."""
    errors = [_too_long(63)] if _bytes(value) > 63 else []
    if not _LABEL_1035_RE.fullmatch(value):
        errors.append(_LABEL_1035_WORDS)
    return errors


def path_segment(value: str) -> list[str]:
    """Check that a name can be a path segment; the rule of RBAC names and of embedded objects."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{banned}'" for banned in ("/", "%") if banned in value]


def _prefix(value: str) -> list[str]:
    return [
        words.replace("characters", "bytes") if words.startswith("must be") else words
        for words in dns1123_subdomain(value)
    ]


@lru_cache(maxsize=4096)
def _label_key(value: str) -> tuple[str, ...]:
    errors = []
    parts = value.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_KEY_WORDS} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if len(parts) == 2:
        found = ["must be non-empty"] if not parts[0] else _prefix(parts[0])
        errors += [f"prefix part {words}" for words in found]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _bytes(name) > 63:
        errors.append(f"name part {_too_many_bytes(63)}")
    if not _KEY_RE.fullmatch(name):
        errors.append(f"name part {_KEY_WORDS}")
    return tuple(errors)


def label_key(value: str) -> tuple[str, ...]:
    """Check a qualified name: the keys of labels and annotations, finalizers."""
    return _label_key(value)


@lru_cache(maxsize=4096)
def label_value(value: str) -> tuple[str, ...]:
    """Check the value of a label."""
    errors = [_too_many_bytes(63)] if _bytes(value) > 63 else []
    if not _VALUE_RE.fullmatch(value):
        errors.append(_VALUE_WORDS)
    return tuple(errors)


def ip_address(value: str) -> list[str]:
    """Check an IP address in its canonical spelling."""
    try:
        canonical = str(ipaddress.ip_address(value))
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if canonical == value else [f'must be in canonical form ("{canonical}")']


def _nothing(_: str) -> list[str]:
    return []


NAME_RULES: Final[Mapping[str, Callable[[str], list[str]]]] = MappingProxyType(
    {
        "subdomain": dns1123_subdomain,
        "label": dns1123_label,
        "dns1035": dns1035_label,
        "path": path_segment,
        "ip": ip_address,
        "any": _nothing,
    }
)
"""The rules that a kind may have for the names of its objects."""


def name_errors(rule: str, name: str, *, prefix: bool = False) -> list[str]:
    """Check a name by a rule of `NAME_RULES`; in a prefix (generateName), a trailing dash is ignored."""
    if not prefix:
        return NAME_RULES[rule](name)
    if rule == "path":
        return [f"may not contain '{banned}'" for banned in ("/", "%") if banned in name]
    masked = f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name
    return NAME_RULES[rule](masked)
