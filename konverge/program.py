"""`kv.run`: a user's operator as a whole program, by the same engine as `konverge run`.

Guarantees: the signals, logs, metrics, health and debug of our own daemon, and its settings, from KONVERGE_* variables and the file that
KONVERGE_CONFIG names (`konverge config` lists them). Embedding programs use `Manager` instead: only this function sets up logs, handles
signals, and ends the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from konverge.errors import KonvergeError

if TYPE_CHECKING:
    from konverge.daemon import config
    from konverge.daemon.settings import Settings
    from konverge.runtime import Manager

__all__ = ["run"]


def run(build: Callable[[Manager], None], *, name: str, settings: Settings | None = None) -> None:
    """Run an operator until SIGTERM or SIGINT, drain it, and return.

    `build` adds the controllers; `name` is the field manager of everything that they write. `settings` replaces the values of
    variables and file. A fatal error is printed as one line on standard error, and ends the process with exit code 1 (2 for bad settings).

    >>> import konverge as kv
    >>> def build(manager: kv.Manager) -> None:
    ...     manager.add(...)
    >>> kv.run(build, name="backup-operator")                    # doctest: +SKIP
    """
    # Imported here, so that `import konverge.program` costs nothing.
    from konverge.daemon import garbage

    with garbage.paused():
        from konverge.daemon import config, engine
        from konverge.daemon.settings import Settings

        try:
            chosen = settings or _print_warnings(config.load(Settings, flags={}, environ=os.environ))
        except KonvergeError as error:
            sys.exit(_print_error(error, 2))
    try:
        engine.run(engine.Operator(name=name, build=build, settings=chosen))
    except KonvergeError as error:
        sys.exit(_print_error(error, 1))


def _print_warnings(loaded: config.Loaded[Settings]) -> Settings:
    for warning in loaded.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return loaded.settings


def _print_error(error: KonvergeError, code: int) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code
