"""The command line: one group, whose commands are imported on their first use.

Guarantees: `konverge --help` imports click and nothing heavy. Exit codes: 0 success, 1 failure, 2 wrong usage. A `KonvergeError` is
printed as one line that begins with "Error:"; any other exception is a bug and keeps its traceback. Colour is used only on a terminal.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from konverge.errors import KonvergeError

__all__ = ["COMMANDS", "main", "program"]


class Entry(NamedTuple):
    """Where a command is defined, and its line in the help, so that listing it needs no import."""

    module: str
    attribute: str
    summary: str
    extra: str = ""


COMMANDS: Final[Mapping[str, Entry]] = {
    "run": Entry("konverge.daemon.run", "run", "Run controllers until a signal: ours, or module:build of yours."),
    "crds": Entry("konverge.daemon.crds", "crds", "Print CustomResourceDefinitions, or apply them."),
    "rbac": Entry("konverge.daemon.rbac", "rbac", "Print the RBAC rules that the chosen controllers need."),
    "webhooks": Entry("konverge.daemon.webhooks", "webhooks", "Print the manifests that register admission webhooks."),
    "chart": Entry("konverge.daemon.chart", "chart", "Write a Helm chart: ours, or of module:build of yours."),
    "config": Entry(
        "konverge.daemon.configuration", "config", "Show every setting with its value, its source and its meaning."
    ),
    "explain": Entry(
        "konverge.daemon.explain", "explain", "Explain why and when an object was reconciled, and what it waits for."
    ),
    "quota": Entry("konverge.daemon.quota", "quota", "Move a Capsule tenant's quotas to resource pools."),
    "demo": Entry(
        "konverge_testing.demo.command",
        "demo",
        "Run everything on this machine: an API server, the daemon, samples.",
        "testing",
    ),
    "apiserver": Entry(
        "konverge_testing.apiserver_command",
        "apiserver",
        "A Kubernetes API server in memory, for any client.",
        "testing",
    ),
    "control-plane": Entry(
        "konverge_testing.commands", "control_plane", "A real Kubernetes API server on this machine.", "testing"
    ),
    "completion": Entry("konverge.daemon.completion", "completion", "Print the shell's completion script."),
}


class _Group(click.Group):
    """A group that lists its commands from the table and imports one when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the signature is click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the signature is click's
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else _loaded(cmd_name, entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"no such command: {name}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KonvergeError as error:
            raise click.ClickException(str(error)) from error


def _loaded(name: str, entry: Entry) -> click.Command:
    try:
        module = importlib.import_module(entry.module)
    except ModuleNotFoundError as error:
        if not entry.extra:
            raise
        raise click.ClickException(
            f"konverge {name} needs {error.name}, which comes with an extra: pip install 'konverge[{entry.extra}]'"
        ) from error
    command: click.Command = getattr(module, entry.attribute)
    return command


def _version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"konverge {version('konverge')}")
    ctx.exit()


# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP: Final = """Kubernetes controllers for asyncio Python.

\b
To see it work, with nothing but this machine:
    konverge demo
On a cluster, with your kubeconfig:
    konverge crds --apply
    konverge run
With an operator of your own, build(manager) in backup_operator.py:
    konverge crds backup_operator:build --apply
    konverge run backup_operator:build

Exit codes: 0 success, 1 failure, 2 wrong usage.
"""


@click.group(cls=_Group, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def program() -> None:
    """Kubernetes controllers for asyncio Python."""


def main() -> None:
    """Run the command line; the entry point of the `konverge` script."""
    program(prog_name="konverge")


if __name__ == "__main__":
    main()
