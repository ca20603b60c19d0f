"""Property names as CEL identifiers, and back.

Guarantees: pure; the rules of k8s.io/apiserver `pkg/cel/escaping.go` (KEP-2876): `__` is `__underscores__`, `.` `__dot__`, `-` `__dash__`,
`/` `__slash__`, and a reserved word is enclosed in double underscores. A name that cannot be written as an identifier has no escape.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["escape"]

_RESERVED: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ALLOWED: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_SPECIAL: Final = re.compile(r"__|[-./]")
_WORDS: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return the identifier for a property, or None if it cannot be escaped.

    >>> escape("x-dash"), escape("namespace"), escape("a__b"), escape("1st"), escape("plain")
    ('x__dash__dash', '__namespace__', 'a__underscores__b', None, 'plain')
    """
    if name in _RESERVED:
        return f"__{name}__"
    if _ALLOWED.fullmatch(name) is None:
        return None
    return _SPECIAL.sub(lambda found: _WORDS[found[0]], name)
