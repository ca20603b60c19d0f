"""The `fieldPath` of a rule: `.spec.replicas` or `['a.b'].c`, checked against the schema.

Guarantees: pure. `field_path` gives the path as field errors show it, or None if it is not valid; source: apiextensions-apiserver
`pkg/apiserver/schema/cel/validation.go`.
"""

from __future__ import annotations

import re
from typing import Final

from konverge_testing.apiserver.nodes import Node

__all__ = ["field_path"]

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(node: Node, text: str) -> str | None:
    """Return the path below a place, without a leading dot.

    >>> field_path(Node({"type": "object", "properties": {"a.b": {"type": "string"}}}), "['a.b']")
    'a.b'
    """
    at, path = 0, ""
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        name = (
            step[1]
            if step[1] is not None
            else re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), step[2])
        )
        if node.properties:
            if name not in node.properties:
                return None
            path += f".{name}" if path else name
            node = node.properties[name]
        elif node.additional is not None:
            path += f"[{name}]"
            node = node.additional
        else:
            return None
        at = step.end()
    return path
