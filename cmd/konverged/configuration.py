"""`konverge config`: every setting with its value, its source and its meaning."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from konverge.daemon.options import load_settings, output_option, print_json, settings_options, target_argument

if TYPE_CHECKING:
    from konverge.daemon.config import Leaf, Loaded
    from konverge.daemon.settings import Settings

__all__ = ["config"]


@click.command()
@target_argument
@output_option("text", "json", "yaml")
@click.option(
    "--reference", is_flag=True, help="All settings with their defaults, as a Markdown table; sources are not read."
)
@settings_options
def config(
    target: str | None, output: str, reference: bool, file: str | None, assignments: tuple[str, ...], **flags: Any
) -> None:
    """Show every setting with its value, its source and its meaning.

    Takes the same flags as `konverge run`, so it shows the settings of such a run. `-o yaml` prints a file for --config.
    """
    from konverge.daemon.config import leaves
    from konverge.daemon.programs import settings_of

    if reference:
        click.echo(markdown(leaves(settings_of(target))), nl=False)
        return
    loaded = load_settings(target, file, assignments, flags)
    known = leaves(type(loaded.settings))
    if output == "json":
        print_json([entry(leaf, loaded) for leaf in known])
    elif output == "yaml":
        click.echo(as_file(known, loaded), nl=False)
    else:
        click.echo(as_text(known, loaded), nl=False)


def entry(leaf: Leaf, loaded: Loaded[Settings]) -> dict[str, Any]:
    """Return one setting for a script."""
    from konverge.daemon.config import plain

    return {
        "path": leaf.path,
        "value": plain(loaded.value(leaf.path)),
        "origin": str(loaded.origin(leaf.path)),
        "default": plain(leaf.default),
        "variable": leaf.variable,
        "flag": leaf.flag,
        "doc": leaf.doc,
    }


def _text_of(leaf: Leaf, value: Any) -> str:
    import json

    from konverge.daemon.config import plain

    data = plain(_default_of_controllers(leaf) if value is None else value)
    return data if isinstance(data, str) and data else json.dumps(data, ensure_ascii=False)


def _default_of_controllers(leaf: Leaf) -> Any:
    """Return the default of controllers, which an unset override leaves in force."""
    from konverge.runtime import Numbers

    return getattr(Numbers(), leaf.path.rpartition(".")[2], None)


def as_text(known: tuple[Leaf, ...], loaded: Loaded[Settings]) -> str:
    """Return all settings as text."""
    lines = []
    for leaf in known:
        value, origin = loaded.value(leaf.path), str(loaded.origin(leaf.path))
        if value is None:
            origin += ", if a controller has no other"
        lines.append(f"{leaf.path} = {_text_of(leaf, value)}   [{origin}]")
        lines += textwrap.wrap(leaf.doc, 110, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def as_file(known: tuple[Leaf, ...], loaded: Loaded[Settings]) -> str:
    """Return the settings in force as a file of settings."""
    import yaml

    from konverge.daemon.config import nested, plain

    values = {leaf.path: plain(loaded.value(leaf.path)) for leaf in known}
    text: str = yaml.safe_dump(
        nested({path: value for path, value in values.items() if value is not None}), sort_keys=False
    )
    return text


def markdown(known: tuple[Leaf, ...]) -> str:
    """Return all settings as a table for the documentation."""
    rows = ["| Setting | Default | Variable | Meaning |", "|---|---|---|---|"]
    for leaf in known:
        doc = leaf.doc.replace("|", "\\|")
        rows.append(f"| `{leaf.path}` | `{_text_of(leaf, leaf.default)}` | `{leaf.variable}` | {doc} |")
    return "\n".join(rows) + "\n"
