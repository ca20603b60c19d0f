"""The matrix verb x kind x feature: which cells the cases fill, which are absent and why; and how two records differ. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import yaml
from conformance_cases import CASES, KINDS, VERBS, Case

__all__ = ["differences", "empty_cells", "report"]

_LINES: Final = 40
_WIDTH: Final = 600


def differences(real: Any, memory: Any) -> list[str]:
    """Return where two records differ, a line each."""
    found = list(_differences(real, memory, ""))
    return found[:_LINES] + ([f"... and {len(found) - _LINES} more"] if len(found) > _LINES else [])


def _differences(real: Any, memory: Any, path: str) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(memory, dict):
        head = f"[{real['step']}]" if path.count(".") <= 1 and "step" in real else ""
        for key in [*real, *(key for key in memory if key not in real)]:
            yield from _differences(real.get(key, "(absent)"), memory.get(key, "(absent)"), f"{path}{head}.{key}")
    elif isinstance(real, list) and isinstance(memory, list) and len(real) == len(memory):
        for number, (one, other) in enumerate(zip(real, memory, strict=True)):
            yield from _differences(one, other, f"{path}.{number}")
    elif type(real) is not type(memory) or real != memory:
        yield f"{path}: {_short(real)} | {_short(memory)}"


def _short(data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def empty_cells(cases: Sequence[Case]) -> list[str]:
    raise NotImplementedError


def report(cases: Sequence[Case], failed: Collection[str]) -> str:
    return ""
