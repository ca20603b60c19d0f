"""`konverge run`."""

from __future__ import annotations

from typing import Any

import click

from konverge.daemon import garbage
from konverge.daemon.options import chosen_build, load_settings, settings_options, target_argument
from konverge.daemon.version import version_option

__all__ = ["run"]


@click.command()
@target_argument
@click.option(
    "--name", metavar="NAME", default=None, help="The field manager of every write; without, the module's name."
)
@version_option
@settings_options
def run(target: str | None, name: str | None, file: str | None, assignments: tuple[str, ...], **flags: Any) -> None:
    """Run controllers until a signal.

    Without an argument the controllers of the installed families: konverge's own, and families of other distributions. MODULE:BUILD is an
    operator of yours: a module in this folder or installed (or a path that ends in .py), and the function build(manager) in it that adds
    the controllers.

    Flags win over KONVERGE_* variables, variables over the file, the file over defaults; `konverge config` shows the result. SIGTERM and
    Ctrl-C let running reconciles end, for --drain seconds at most; a second signal ends the process at once.
    """
    with garbage.paused():
        from konverge.daemon import engine

        settings = load_settings(target, file, assignments, flags).settings
        operator, build = chosen_build(target)
    engine.run(engine.Operator(name=name or operator, build=build, settings=settings))
