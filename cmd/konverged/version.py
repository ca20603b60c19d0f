"""`--version`: the version of konverge with its commit and its build.

The first source with a commit counts: the variables of an image, set by the build arguments of deploy/Containerfile; the module `built`,
written by a release into its packages; direct_url.json (PEP 610), written by pip for an installation from a repository. An editable
installation without a commit is printed as a source tree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

__all__ = ["BUILD_VARIABLE", "COMMIT_VARIABLE", "version_option", "version_text"]

COMMIT_VARIABLE: Final = "KONVERGE_COMMIT"
BUILD_VARIABLE: Final = "KONVERGE_BUILD"


def version_text(version: str, environ: Mapping[str, str], direct_url: str | None, built: tuple[str, str]) -> str:
    """Return the line that `--version` prints, from the environment, direct_url.json, and the commit and build of the package.

    >>> version_text("1.2.0", {"KONVERGE_COMMIT": "5fcec85b", "KONVERGE_BUILD": "2026-11-28"}, None, ("", ""))
    'konverge 1.2.0 (commit 5fcec85b, build 2026-11-28)'
    """
    recorded = json.loads(direct_url or "{}")
    commit, build = environ.get(COMMIT_VARIABLE), environ.get(BUILD_VARIABLE)
    if not commit:
        commit, build = built[0] or recorded.get("vcs_info", {}).get("commit_id"), build or built[1]
    facts = {"commit": commit, "build": build}
    known = [f"{name} {fact}" for name, fact in facts.items() if fact]
    if not commit and recorded.get("dir_info", {}).get("editable"):
        known.insert(0, "source tree")
    return f"konverge {version} ({', '.join(known)})" if known else f"konverge {version}"


def _print(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    import os
    from importlib.metadata import distribution

    from konverge.daemon.built import BUILD, COMMIT

    found = distribution("konverge")
    click.echo(version_text(found.version, os.environ, found.read_text("direct_url.json"), (COMMIT, BUILD)))
    ctx.exit()


def version_option(command: Any) -> Any:
    """Add `--version` to a command."""
    text = "Show the version, the commit and the build."
    return click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print, help=text)(
        command
    )
