"""Secrets among inline values: found by the names of their keys and by the look of private keys.

The rule is the original's (apps.md section 1): refused is a leaf whose key ends in `password` or `secret`, or is `accessKey`, `secretKey`,
`apiKey` or `token`, and any private key in PEM; empty values and placeholder text are allowed. Ours: a key like `existingSecret` names a
Secret instead of holding one, and truth values hold none.

Promises: pure; what is returned are paths, never values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["nulls", "secrets"]

_ENDINGS = ("password", "secret")
_NAMES = frozenset({"accesskey", "secretkey", "apikey", "token"})
_REFERENCE = re.compile(r"^existing")
_PLACEHOLDER = re.compile(
    r"^(<.*>|\$\{.*\}|\$\(.*\)|\{\{.*\}\}|\*+|x{3,}|change[-_ ]?(me|it)|replace[-_ ]?(me|it)|placeholder|redacted|example|todo)$",
    re.IGNORECASE | re.DOTALL,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


def _leaves(value: Any, path: str, key: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (path, nearest key, value) of every leaf; items of a list bear the list's key."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}", str(name))
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from _leaves(member, f"{path}[{position}]", key)
    else:
        yield path, key, value


def _names_a_secret(key: str) -> bool:
    word = re.sub(r"[^a-z0-9]", "", key.lower())
    return not _REFERENCE.match(word) and (word in _NAMES or word.endswith(_ENDINGS))


def _is_secret(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return False
    text = str(value).strip()
    if _PRIVATE_KEY.search(text):
        return True
    return bool(text) and _names_a_secret(key) and not _PLACEHOLDER.match(text)


def secrets(values: Mapping[str, Any], path: str) -> list[str]:
    """Return the paths of leaves that look like secrets.

    >>> secrets({"db": {"password": "hunter2", "user": "shop"}, "token": "<from the vault>"}, ".values")
    ['.values.db.password']
    """
    return [where for where, key, value in _leaves(values, path, "") if _is_secret(key, value)]


def nulls(values: Mapping[str, Any], path: str) -> list[str]:
    """Return the paths of leaves that are null.

    >>> nulls({"resources": None, "replicas": 1}, ".values")
    ['.values.resources']
    """
    return [where for where, _, value in _leaves(values, path, "") if value is None]
