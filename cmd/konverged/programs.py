"""The controllers to run: the installed families, or a user's `module:build`, narrowed to the chosen controllers.

Guarantees: uses only the library's public API: a build is `build(manager)`. A misspelt name is a UsageError that lists the existing names.
A user's operator loads no family; families are half of the imports at a start.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from konverge.daemon.settings import Settings
from konverge.errors import UsageError
from konverge.runtime.http.access import REVIEW_RULES

if TYPE_CHECKING:
    from konverge.runtime import Manager

__all__ = ["NAME", "Build", "fill", "load_build", "models_of", "narrow", "settings_of"]

Build: TypeAlias = "Callable[[Manager], None]"

NAME = "konverge"
"""The name of our own daemon's manager: its field manager."""


def load_build(target: str) -> tuple[str, Build]:
    """Find `module:build`, or `path/to/file.py:build`; returns a name for its manager, and the function.

    Without `:build` the function is called `build`. Modules are also looked for in the present directory. Raises UsageError.
    """
    module_name, colon, attribute = target.partition(":")
    if not module_name or (colon and not attribute):
        raise UsageError(f"{target!r}: write module:function, for instance backup_operator:build")
    attribute = attribute or "build"
    module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_path(module_name)
    build = getattr(module, attribute, None)
    if not callable(build):
        functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        near = get_close_matches(attribute, functions, n=1)
        hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
        raise UsageError(f"{module_name} has no function {attribute}(manager){hint}")
    if inspect.isclass(build) or not _takes_one(build):
        what = "a class" if inspect.isclass(build) else "not to be called with one argument"
        raise UsageError(
            f"{target}: {attribute} is {what}; expected a function build(manager) that adds controllers to it, "
            f"for instance {module_name}:build"
        )
    return module.__name__.rpartition(".")[2].replace("_", "-"), build


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _from_path(name: str) -> Any:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module exists, and an import of it failed
        raise UsageError(f"no module {name!r}, neither installed nor in {folder}") from error


def _from_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise UsageError(f"no file {path}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    # Models resolve their annotations through sys.modules.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def settings_of(target: str | None) -> type[Settings]:
    """Return the class of settings of the daemon with the installed families (no target), or of a user's operator; raises ConfigError."""
    if target is not None:
        return Settings
    from konverge.daemon.families import installed_settings

    return installed_settings()


def models_of(manager: Manager) -> list[type[Any]]:
    """Return the declared models of a manager's controllers, webhooks and conversions, each once."""
    parts: list[Any] = [*manager.controllers, *manager.webhooks]
    models = [part.model for part in parts if hasattr(part.model, "__konverge_declaration__")]
    models += [model for conversion in manager.conversions for model in conversion.models]
    return list(dict.fromkeys(models))


async def fill(manager: Manager, target: Build | None, settings: Settings) -> None:
    """Add the controllers of the families, or of a user's build, to a manager that was not started; then narrow them.

    The rights that the settings need by themselves are declared, too.
    """
    if settings.metrics_secure:
        manager.needs(*REVIEW_RULES)
    if target is not None:
        target(manager)
        await narrow(manager, settings, {})
        return
    from konverge.daemon.families import DaemonSettings, install_families

    assert isinstance(settings, DaemonSettings)
    await narrow(manager, settings, install_families(manager, settings))


async def narrow(manager: Manager, settings: Settings, belongs: Mapping[str, Sequence[str]]) -> None:
    """Keep the chosen controllers, and set the numbers of each. Raises UsageError for an unknown name.

    The webhooks and conversions of a family are dropped with it, its background work with the last of its controllers. The webhooks,
    conversions and background work of a user's build stay.
    """
    names = [controller.name for controller in manager.controllers]
    chosen: set[str] = set()
    for name in settings.controllers:
        if name not in names and name not in belongs:
            raise UsageError(_no_controller(name, names, belongs))
        chosen.update(belongs.get(name, (name,)))
    for name in settings.controller:
        if name not in names:
            raise UsageError(_no_controller(name, names, {}))
    webhooks = [webhook.path for webhook in manager.webhooks]
    for path in (*webhooks, *(conversion.path for conversion in manager.conversions)):
        if chosen and path not in chosen and any(path in parts for parts in belongs.values()):
            await manager.remove(path)
    for work in manager.background:
        if chosen and any(work in parts and chosen.isdisjoint(parts) for parts in belongs.values()):
            await manager.remove(work)
    for spec in manager.controllers:
        numbers = settings.reconcile.numbers()
        if spec.name in settings.controller:
            numbers |= settings.controller[spec.name].numbers()
        dropped = bool(chosen) and spec.name not in chosen
        if dropped or numbers:
            await manager.remove(spec.name)
        if numbers and not dropped:
            manager.add(spec.with_(**numbers))


def _no_controller(name: str, names: Sequence[str], belongs: Mapping[str, Sequence[str]]) -> str:
    choices = f"controllers: {', '.join(names) or 'none'}" + (f"; families: {', '.join(belongs)}" if belongs else "")
    return f"there is no controller {name!r} here; {choices}"
