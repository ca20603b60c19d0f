"""`konverge add`: a kind, a webhook or a version is added to a project of `konverge init`.

Guarantees: no existing file is replaced. `build` gets one import and one call for each part if its form allows that; else the command
prints the lines to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from konverge.errors import UsageError

if TYPE_CHECKING:
    from konverge.daemon.scaffold.project import Project
    from konverge.daemon.scaffold.registry import BuildPart

__all__ = ["add"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def add() -> None:
    """Add a kind, a webhook or a version to the project in this folder, which `konverge init` wrote.

    New files only: no file is replaced. `build` in the package gets the new part if its form is clear; else the lines to add are printed.
    """


@add.command()
@click.argument("kind")
@click.option("--group", metavar="GROUP", default=None, help="Its API group; without, the project's.")
@click.option("--with", "features", metavar="FEATURES", default="", help="Any of webhook, finalizer and conversion.")
def kind(kind: str, group: str | None, features: str) -> None:
    """Add the kind KIND with its controller, its tests and a sample."""
    from konverge.daemon.scaffold.files import chosen_features, kind_files, parts_of
    from konverge.daemon.scaffold.names import KindNames

    try:
        project = _project()
        names, chosen = KindNames(kind, group or project.group), chosen_features(features)
        parts = parts_of(project.package, names, ("controller", *chosen))
        _add(project, kind_files(project.package, names, chosen), parts)
    except UsageError as error:
        raise click.UsageError(str(error)) from error


@add.command()
@click.argument("kind")
def webhook(kind: str) -> None:
    """Add a validating webhook to the kind KIND of the project."""
    from konverge.daemon.scaffold.files import parts_of, webhook_files

    try:
        project = _project()
        names = project.kind(kind)
        _add(project, webhook_files(project.package, names), parts_of(project.package, names, ("webhook",)))
    except UsageError as error:
        raise click.UsageError(str(error)) from error


@add.command()
@click.argument("version")
@click.option("--kind", metavar="KIND", required=True, help="The kind of the project.")
def version(version: str, kind: str) -> None:
    """Add the version VERSION to a kind of the project, with its conversion.

    Two functions convert objects to and from the version of model.py, which the controller keeps. The new version begins with the same
    fields: change them and the two functions in its module.
    """
    from konverge.daemon.scaffold.files import conversion_files, parts_of, version_files
    from konverge.daemon.scaffold.names import KindNames

    try:
        project = _project()
        names = project.kind(kind)
        KindNames(kind, names.group, version)  # checks the form of the version
        if version == names.version:
            raise UsageError(f"{kind} has the version {version} in model.py: choose another version")
        files = version_files(project.package, names, version)
        conversion = project.folder / project.package / names.plural / "conversion.py"
        first = not conversion.exists()
        if first:
            files |= conversion_files(project.package, names, version)
        _add(project, files, parts_of(project.package, names, ("conversion",) if first else ()))
        if not first:
            click.echo(
                f"\nAdd it to {conversion.relative_to(project.folder)}, which has a version already:\n"
                f"    from {project.package}.{names.plural} import {version}\n"
                f"    .version({version}.{kind}, up={version}.up, down={version}.down)"
            )
    except UsageError as error:
        raise click.UsageError(str(error)) from error


def _project() -> Project:
    from konverge.daemon.scaffold.project import find_project

    return find_project(Path.cwd())


def _add(project: Project, files: Mapping[str, str], parts: Iterable[BuildPart]) -> None:
    """Write the files, add the parts to `build`, and report both."""
    from konverge.daemon.scaffold.files import write

    write(project.folder, files)
    for path in files:
        click.echo(f"new      {path}")
    parts = tuple(parts)
    left = project.register(parts)
    registry = project.registry.relative_to(project.folder)
    if len(left) < len(parts):
        click.echo(f"changed  {registry}")
    if left:
        click.echo(f"\nbuild(manager) in {registry} has a form of its own. Add:")
        for part in left:
            click.echo(f"    {part.statement}")
        for part in left:
            click.echo(f"    {part.call}")
