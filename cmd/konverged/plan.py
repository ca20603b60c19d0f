"""`konverge plan`: what an operator would change on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from konverge.daemon.options import (
    chosen_build,
    load_settings,
    output_option,
    print_json,
    print_text,
    settings_options_without,
    target_argument,
)

if TYPE_CHECKING:
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings
    from konverge.planning import PlanReport, Selector
    from konverge.runtime import Manager

__all__ = ["DETAILED", "DetailedCommand", "filling", "plan"]

DETAILED = "--detailed-exitcode"
_UNUSED = ("namespace", "metrics", "health", "debug", "drain", "sharding")
"""Flags of settings that change nothing in a plan; `--namespace` selects objects here."""


class DetailedCommand(click.Command):
    """A command whose wrong usage ends with 1 under `--detailed-exitcode`, since 2 means changes then."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments."""
        detailed = DETAILED in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _with_code_1(error, detailed=detailed) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _with_code_1(error, detailed=bool(ctx.params.get("detailed"))) from error


class _Failure(click.UsageError):
    """Wrong usage, as a failure."""

    exit_code = 1


def _with_code_1(error: click.UsageError, *, detailed: bool) -> click.UsageError:
    return _Failure(error.message, error.ctx) if detailed else error


@click.command(cls=DetailedCommand)
@target_argument
@click.option("--name", "names", metavar="NAME", default="", help="Begin with the objects of this name.")
@click.option("--namespace", "-n", metavar="NAME", default="", help="Begin with the objects in this namespace.")
@click.option("--kind", metavar="KIND", default="", help="Begin with this kind: its name, its plural or a short name.")
@click.option(
    "--manager", metavar="NAME", default=None, help="The field manager of every write; without, the module's name."
)
@click.option("--timeout", metavar="SECONDS", type=float, default=600.0, show_default=True, help="For the whole plan.")
@click.option(DETAILED, "detailed", is_flag=True, help="End with 0 for no changes, 2 for changes, and 1 for any error.")
@output_option("text", "json")
@settings_options_without(*_UNUSED)
def plan(
    target: str | None,
    names: str,
    namespace: str,
    kind: str,
    manager: str | None,
    timeout: float,
    detailed: bool,
    output: str,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Show what controllers would change on the cluster, and change nothing.

    Without an argument the controllers of the installed families; MODULE:BUILD is an operator of yours, as in konverge run. Each object is
    reconciled with the operator's rights; each write is a server-side dry run, which later reads see. The result is the difference of each
    object, with the reconcile that causes it. Values of Secrets are blanked.

    A controller that calls something outside Kubernetes is not tried, unless it declares a stand-in. Delays do not pass, and the garbage
    collector and other controllers do not act on planned objects.
    """
    from konverge.daemon import logs
    from konverge.planning import Selector, text_of

    settings = load_settings(target, file, assignments, flags).settings
    operator, build = chosen_build(target)
    logs.configure(level=flags.get("log_level") or "error", form=settings.log_format)
    selector = Selector(kind=kind, namespace=namespace, name=names)
    report = asyncio.run(plan_of(manager or operator, build, settings, selector, timeout))
    if output == "json":
        print_json(report.to_dict())
    else:
        print_text(text_of(report))
    code = report.exit_code
    if code == 1 or detailed:
        click.get_current_context().exit(code)


async def plan_of(name: str, build: Build | None, settings: Settings, selector: Selector, timeout: float) -> PlanReport:
    """Return the plan of the installed families, or of a user's build, on the cluster of the settings."""
    from konverge import planning
    from konverge.daemon.engine import client_config, manager_settings

    return await planning.plan(
        name,
        await client_config(settings),
        filling(build, settings),
        settings=manager_settings(settings),
        selector=selector,
        timeout=timeout,
    )


def filling(build: Build | None, settings: Settings) -> Callable[[Manager], Awaitable[None]]:
    """Return the function that adds the chosen controllers to the manager of a plan."""
    from konverge.daemon.programs import fill

    return lambda manager: fill(manager, build, settings)
