"""`--version`: the version of konverge with its commit and its build.

An image has commit and build in variables, which the build arguments of deploy/Containerfile set. pip records the commit of an installation
from a repository in direct_url.json (PEP 610). Without either the version has no commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

__all__ = ["BUILD_VARIABLE", "COMMIT_VARIABLE", "version_option", "version_text"]

COMMIT_VARIABLE: Final = "KONVERGE_COMMIT"
BUILD_VARIABLE: Final = "KONVERGE_BUILD"


def version_text(version: str, environ: Mapping[str, str], direct_url: str | None) -> str:
    """Return the line that `--version` prints, from the environment and the content of direct_url.json.

    >>> version_text("1.2.0", {"KONVERGE_COMMIT": "5fcec85b", "KONVERGE_BUILD": "2026-11-28"}, None)
    'konverge 1.2.0 (commit 5fcec85b, build 2026-11-28)'
    """
    recorded = json.loads(direct_url or "{}").get("vcs_info", {}).get("commit_id")
    facts = {"commit": environ.get(COMMIT_VARIABLE) or recorded, "build": environ.get(BUILD_VARIABLE)}
    known = ", ".join(f"{name} {fact}" for name, fact in facts.items() if fact)
    return f"konverge {version} ({known})" if known else f"konverge {version}"


def _print(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    import os
    from importlib.metadata import distribution

    found = distribution("konverge")
    click.echo(version_text(found.version, os.environ, found.read_text("direct_url.json")))
    ctx.exit()


def version_option(command: Any) -> Any:
    """Add `--version` to a command."""
    text = "Show the version, the commit and the build."
    return click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print, help=text)(
        command
    )
