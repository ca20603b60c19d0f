"""Names of a package that are imported at their first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["at_first_use"]


def at_first_use(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: `homes` has the names of each module, as seen from the package.

    >>> at_first_use("konverge", {"keys": ("Key",)})("Key").__name__
    'Key'
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
