"""Secrets among inline values: found by the names of their keys, by the format of private keys, and by passwords inside URLs.

Reported are a leaf whose key ends in one of `_ENDINGS` or in a word of `_WORDS`, the `value` of an entry `{name, value}` or of a mapping
whose name has such an ending (`env: [{name: DB_PASSWORD, value: ...}]`, `password: {value: ...}`), any private key in PEM, and any
`scheme://user:password@host`. So are texts, lists and maps under a key that ends in one of `_COLLECTIONS`.
The original (`vworkspace-io/vworkspace-operator`, internal/webhook/validation.go) finds `...password` and
`...secret`, exact `accessKey`, `secretKey`, `apiKey`, `token`, and private keys; the rest is ours.

Not reported are references to a secret (`existingSecret`, `passwordSecretRef`, everything below `valueFrom` and `...Ref`, a file's path,
`vault:...`), empty and placeholder text, and booleans.

Guarantees: pure; returns paths, never values; handles any depth of nesting.

Caveats: finds mistakes, not secrets that are hidden on purpose: inside a longer text (a configuration file as one string) only private
keys and URL passwords are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["has_more_levels", "has_more_values", "secrets"]

_ENDINGS: Final = (
    *("password", "passwd", "passphrase", "secret", "token"),
    *("accesskey", "secretkey", "apikey", "privatekey"),
)
"""Endings of keys that hold a secret, in lower case and without separators."""
_WORDS: Final = frozenset({"pass", "pwd"})
"""Endings that must be whole words: `pass`, `SMTP_PASS` and `dbPwd` match, `bypass` and the variable `PWD` do not."""
_COLLECTIONS: Final = ("passwords", "passphrases", "credentials")
"""Endings of keys that hold secrets: a text or a list below them, and each entry of a map except its `_PUBLIC` entries."""
_PUBLIC: Final = re.compile(
    r"(user|username|name|login|email|account|host|port|url|uri|endpoint|region|type|provider|id)$"
)
"""Endings of keys of a map of credentials that hold no secret."""
_REFERRING: Final = re.compile(r"^existing|(tls|pull|ca|cert|certificate|password)secret$|^proxypass$")
"""Keys that end like a secret but hold the name of a secret, or something else."""
_BELOW: Final = re.compile(r"([a-z0-9]Refs?|^refs?|^valueFrom)$")
"""Keys of references: names below them are names of Secrets and of their keys."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLACEHOLDER: Final = re.compile(
    r"^(<.*>|\$\{.*\}|\$\(.*\)|\{\{.*\}\}|\*+|x{3,}|change[-_ ]?(me|it)|replace[-_ ]?(me|it)|placeholder|redacted|example|todo"
    r"|true|false|yes|no|on|off|enabled|disabled|none|null)$",
    re.IGNORECASE | re.DOTALL,
)
_ELSEWHERE: Final = re.compile(
    r"^((/[a-z0-9._-]+){2,}|(vault:|ref\+|secretref\+|op://|arn:aws:secretsmanager:).*)$", re.DOTALL
)
"""Values that refer to a secret: a file, or a store that a tool of the chart reads."""
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_URL_PASSWORD: Final = re.compile(r"(?<=[A-Za-z0-9+.-])://[^\s/:@]*:([^\s/@]+)@(?!sha256:)")
"""Begins at the colon: a pattern that begins with the scheme would take quadratic time in a long text."""


class _Leaf(NamedTuple):
    path: str
    key: str
    """The nearest key; the key above it for `value`, and the name beside it for an entry `{name, value}`."""
    value: Any
    referred: bool
    """Whether it is below a reference, or beside a reference, so that `secretKey` is a name."""


def _leaves(values: Any, path: str) -> Iterator[_Leaf]:
    """Yield every leaf in order; items of a list have the list's key."""
    waiting = [_Leaf(path, "", values, False)]
    while waiting:
        where, key, value, referred = at = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(reversed([_member(at, str(name), member, value) for name, member in value.items()]))
        elif isinstance(value, list):
            waiting.extend(
                reversed([_Leaf(f"{where}[{place}]", key, item, referred) for place, item in enumerate(value)])
            )
        else:
            yield at


def _member(parent: _Leaf, name: str, member: Any, beside: Mapping[Any, Any]) -> _Leaf:
    where, key = f"{parent.path}.{name}", name
    if name == "value":
        called = beside.get("name")
        key = called if isinstance(called, str) else parent.key
    elif _bare(parent.key).endswith(_COLLECTIONS) and not _PUBLIC.search(_bare(name)) and not _refers(name):
        key = parent.key
    referred = parent.referred or _BELOW.search(name) is not None
    if _bare(name).endswith("secretkey") and any(_refers(str(other)) for other in beside):
        referred = True
    return _Leaf(where, key, member, referred)


def _bare(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _refers(key: str) -> bool:
    return _BELOW.search(key) is not None or _bare(key).endswith("secretname") or _bare(key).startswith("existing")


def _names_a_secret(key: str) -> bool:
    bare, words = _bare(key), [word.lower() for word in _WORD.findall(key)]
    if _REFERRING.search(bare):
        return False
    if bare.endswith((*_ENDINGS, *_COLLECTIONS)):
        return True
    return bool(words) and words[-1] in _WORDS and (len(words) > 1 or key != "PWD")


def _holds_nothing(text: str) -> bool:
    return not text or _PLACEHOLDER.match(text) is not None


def _is_secret(leaf: _Leaf) -> bool:
    if leaf.value is None or isinstance(leaf.value, bool):
        return False
    text = str(leaf.value).strip()
    if _PRIVATE_KEY.search(text) or any(not _holds_nothing(match[1]) for match in _URL_PASSWORD.finditer(text)):
        return True
    if leaf.referred or _holds_nothing(text) or _ELSEWHERE.match(text):
        return False
    return _names_a_secret(leaf.key)


def secrets(values: Mapping[str, Any], path: str) -> list[str]:
    """Return the paths of leaves that look like secrets.

    >>> secrets({"db": {"password": "hunter2", "user": "shop"}, "token": "<from the vault>"}, ".values")
    ['.values.db.password']
    """
    return [leaf.path for leaf in _leaves(values, path) if _is_secret(leaf)]


def has_more_values(values: Any, limit: int) -> bool:
    """Tell whether maps and lists hold more members than the limit, at any depth; the walk ends at the limit.

    >>> has_more_values({"a": [1, {"b": 2}]}, 3), has_more_values({"a": [1, {"b": 2}]}, 4)
    (True, False)
    """
    count = 0
    parts = [values]
    while parts:
        part = parts.pop()
        members = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
        count += len(members)
        if count > limit:
            return True
        parts.extend(member for member in members if isinstance(member, (Mapping, list)))
    return False


def has_more_levels(values: Any, limit: int) -> bool:
    """Tell whether maps and lists are nested more deeply than the limit.

    >>> has_more_levels({"a": [1, {"b": 2}]}, 2), has_more_levels({"a": [1, {"b": 2}]}, 3)
    (True, False)
    """
    level = [values]
    for _ in range(limit + 1):
        level = [part for part in level if isinstance(part, (Mapping, list))]
        if not level:
            return False
        level = [member for part in level for member in (part.values() if isinstance(part, Mapping) else part)]
    return True
