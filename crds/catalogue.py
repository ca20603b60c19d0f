"""The custom resources of konverge's own families: the classes in the modules of this package that are named after a version.

The families of the daemon name the same kinds (`Family.kinds`); tests/unit/daemon/test_families.py compares them.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any, Final

from konverge.crds.manifest import crd_manifests
from konverge.crds.resource import CustomResource

__all__ = ["all_manifests", "own_resources"]


_VERSIONED: Final = re.compile(r"\w+_v\d+((alpha|beta)\d+)?")


def own_resources() -> tuple[type[CustomResource[Any, Any]], ...]:
    """Return the classes of the families' kinds; this call imports their modules."""
    folder, package = Path(__file__).parent, __name__.rpartition(".")[0]
    names = (module.name for module in pkgutil.iter_modules([str(folder)]) if _VERSIONED.fullmatch(module.name))
    modules = [importlib.import_module(f"{package}.{name}") for name in sorted(names)]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and "__konverge_declaration__" in vars(value) and value.__module__ == module.__name__
    )


def all_manifests() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of our own kinds, sorted by name."""
    return crd_manifests(own_resources())
