"""`konverge init`: a project with one kind, its tests, and the files to build and ship it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import click

from konverge.errors import UsageError

__all__ = ["init"]


@click.command()
@click.argument("name")
@click.option("--kind", metavar="KIND", default=None, help="The first kind; without, derived from NAME.")
@click.option("--group", metavar="GROUP", default="example.com", show_default=True, help="The API group of the kind.")
@click.option(
    "--with",
    "features",
    metavar="FEATURES",
    default="",
    help="Any of webhook, finalizer and conversion, with commas.",
)
def init(name: str, kind: str | None, group: str, features: str) -> None:
    """Write a project for an operator of your own into the new folder NAME.

    A model, a reconciler with a pure decision, unit tests and scenarios, settings, Containerfile, CI for GitHub and GitLab, and a README.
    The operator works: `make test` and `make demo` in the folder show it. `konverge add` adds kinds, webhooks and versions later.
    """
    from konverge.daemon.scaffold.files import chosen_features, kind_files, parts_of, project_files, write
    from konverge.daemon.scaffold.names import KindNames, ProjectNames, bounds_of, default_kind
    from konverge.daemon.scaffold.project import find_project

    try:
        project = ProjectNames(name)
        names = KindNames(kind or default_kind(name), group)
        chosen = chosen_features(features)
        folder = Path(name)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists and is not empty: choose another name, or remove it")
        files = project_files(project, names, bounds_of(version("konverge")))
        files |= kind_files(project.package, names, chosen)
        write(folder, files)
        left = find_project(folder).register(parts_of(project.package, names, ("controller", *chosen)))
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    assert not left, "the template of build has the form that registry.py expects"
    click.echo(f"{folder}: {len(files)} files\n\nNext:\n  cd {folder}\n  make test\n  make demo")
