"""The command line: one group, whose commands are imported on their first use.

Guarantees: `konverge --help` imports click and nothing heavy. Exit codes: 0 success, 1 failure, 2 wrong usage. A `KonvergeError` is
printed as one line that begins with "Error:"; any other exception is a bug and keeps its traceback. Colour is used only on a terminal.

Another distribution adds a command with an entry point of the group `konverge.commands`: the name of the command, and its `click.Command`.
The test kit's commands are listed even if the kit is not installed; they then print which extra to install.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from konverge.daemon.version import version_option
from konverge.errors import KonvergeError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["COMMANDS", "main", "program"]


GROUP: Final = "konverge.commands"
"""The entry point group of commands that other distributions add."""


class Entry(NamedTuple):
    """The module and the attribute of a command, and the line of the help, so that listing the command needs no import."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final[Mapping[str, Entry]] = {
    "init": Entry("konverge.daemon.init", "init", "Write a project for an operator of your own."),
    "add": Entry("konverge.daemon.add", "add", "Add a kind, a webhook or a version to such a project."),
    "run": Entry("konverge.daemon.run", "run", "Run controllers until a signal: ours, or module:build of yours."),
    "crds": Entry("konverge.daemon.crds", "crds", "Print CustomResourceDefinitions, or apply them."),
    "models": Entry(
        "konverge.daemon.models", "models", "Write typed models of built-in kinds, or of kinds of other operators."
    ),
    "rbac": Entry("konverge.daemon.rbac", "rbac", "Print the RBAC rules that the chosen controllers need."),
    "webhooks": Entry("konverge.daemon.webhooks", "webhooks", "Print the manifests that register admission webhooks."),
    "chart": Entry("konverge.daemon.chart", "chart", "Write a Helm chart: ours, or of module:build of yours."),
    "config": Entry(
        "konverge.daemon.configuration", "config", "Show every setting with its value, its source and its meaning."
    ),
    "explain": Entry(
        "konverge.daemon.explain", "explain", "Explain why and when an object was reconciled, and what it waits for."
    ),
    "plan": Entry(
        "konverge.daemon.plan", "plan", "Show what controllers would change on the cluster, and change nothing."
    ),
    "quota": Entry("konverge.daemon.quota", "quota", "Move a Capsule tenant's quotas to resource pools."),
    "completion": Entry("konverge.daemon.completion", "completion", "Print the shell's completion script."),
}

KIT_COMMANDS: Final[Mapping[str, str]] = {
    "demo": "Run everything on this machine: an API server, the daemon, samples.",
    "apiserver": "A Kubernetes API server in memory, for any client.",
    "control-plane": "A real Kubernetes API server on this machine.",
    "replay": "Run a recorded reconcile again, or write a test of it.",
}
"""The commands of the test kit (konverge-testing), and the line of each in the help."""


class _Group(click.Group):
    """A group that lists its commands without importing them and imports a command when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the signature is click's
        return list(_summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the signature is click's
        if cmd_name in COMMANDS:
            entry = COMMANDS[cmd_name]
            command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
            return command
        added = _added()
        if cmd_name in added:
            return _loaded(cmd_name, added[cmd_name])
        if cmd_name in KIT_COMMANDS:
            raise click.ClickException(
                f"konverge {cmd_name} comes with the test kit, konverge-testing, which is not installed: "
                "pip install 'konverge[testing]'"
            )
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _summaries():
            import difflib

            near = difflib.get_close_matches(name, _summaries(), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"no such command: {name}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as above
        with formatter.section("Commands"):
            formatter.write_dl(list(_summaries().items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KonvergeError as error:
            raise click.ClickException(str(error)) from error


def _added() -> Mapping[str, EntryPoint]:
    """Return the commands of other distributions; a command of ours keeps its name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in COMMANDS}


def _summaries() -> dict[str, str]:
    """Return each command with its line in the help."""
    ours = {name: entry.summary for name, entry in COMMANDS.items()}
    completion = {"completion": ours.pop("completion")}  # at the end: it serves the others
    others = {
        name: f"A command of {entry.dist.name if entry.dist is not None else 'another distribution'}."
        for name, entry in _added().items()
        if name not in KIT_COMMANDS
    }
    return {**ours, **KIT_COMMANDS, **others, **completion}


def _loaded(name: str, entry: EntryPoint) -> click.Command:
    """Import a command of another distribution."""
    dist = entry.dist.name if entry.dist is not None else "another distribution"
    try:
        command = entry.load()
    except ImportError as error:
        raise click.ClickException(
            f"konverge {name} of {dist} cannot be imported: {error}. Install what {dist} needs"
        ) from error
    except AttributeError as error:
        raise click.ClickException(
            f"konverge {name}: the entry point {entry.value!r} of {dist} does not exist"
        ) from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f"konverge {name}: the entry point {entry.value!r} of {dist} is no click.Command")
    return command


# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP: Final = """Kubernetes controllers for asyncio Python.

\b
To see it work, with nothing but this machine:
    konverge demo
To begin an operator of your own:
    konverge init guestbook --kind Guestbook --group example.com
On a cluster, with your kubeconfig:
    konverge crds --apply
    konverge run
With an operator of your own, build(manager) in backup_operator.py:
    konverge crds backup_operator:build --apply
    konverge run backup_operator:build

Exit codes: 0 success, 1 failure, 2 wrong usage.
"""


@click.group(cls=_Group, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@version_option
def program() -> None:
    """Kubernetes controllers for asyncio Python."""


def main() -> None:
    """Run the command line; the entry point of the `konverge` script."""
    program(prog_name="konverge")


if __name__ == "__main__":
    main()
