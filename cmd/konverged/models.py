"""`konverge models`: typed models of kinds that are not ours, from a cluster or from files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from konverge.daemon.options import load_settings, settings_options_without
from konverge.errors import NotFound, UsageError

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.crds.foreign.documents import ForeignKind
    from konverge.daemon.settings import Settings

__all__ = ["cluster_kinds", "models"]

_API_VERSION = re.compile(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?")
_UNUSED = ("namespace", "controllers", "metrics", "health", "debug", "log-level", "log-format", "drain", "sharding")
_ONE_LINE = 60
_MANY = 50
"""A module with more classes has many that no program reads, so the command names --fields."""


class ModuleRequest(NamedTuple):
    """The content of a module: kinds as (API version, kind), paths of fields, and files; the cluster without a file."""

    kinds: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    files: tuple[str, ...]

    def arguments(self, output: str | None) -> list[str]:
        """Return the arguments of a command with this request."""
        words, version = list[str](), ""
        for api_version, kind in self.kinds:
            words += [kind] if api_version == version else [api_version, kind]
            version = api_version
        paths = [path.strip() for several in self.fields for path in several.split(",")]
        joined = ",".join(paths)
        for option in [joined] if len(joined) <= _ONE_LINE and joined else paths:
            words += ["--fields", option]
        for file in self.files:
            words += ["--from", file]
        return [*words, *(("--output", output) if output else ())]


# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP: Final = """Write typed models of built-in kinds, or of kinds of other operators.

\b
    konverge models batch/v1 Job
    konverge models batch/v1 Job CronJob apps/v1 Deployment -o models.py
    konverge models batch/v1 Job --fields spec.suspend,status.succeeded
    konverge models --from helmreleases.yaml -o flux.py
    konverge models -o models.py --check

The schemas are those of the cluster, or of files. Fields that are not selected survive a round trip. A path passes through lists and maps:
spec.template.spec.containers.image. The first lines of the module are the command that writes it again, and the command needs
only --output then. With --check it exits with 1 and names the fields that differ; comments, descriptions and layout do not matter.
"""


@click.command(help=_HELP)
@click.argument("kinds", nargs=-1, metavar="[API_VERSION KIND]...")
@click.option(
    "--fields",
    multiple=True,
    metavar="PATHS",
    help="Only these fields (spec.suspend,status); of one kind: Job.spec.suspend.",
)
@click.option(
    "--from",
    "--crd",
    "files",
    multiple=True,
    metavar="FILE",
    help="An OpenAPI document or CustomResourceDefinitions, - for the input; without, the cluster.",
)
@click.option("--output", "-o", metavar="FILE", default=None, help="The module to write; without, print it.")
@click.option(
    "--check", is_flag=True, help="With --output: write nothing, and fail if the module differs from the API."
)
@settings_options_without(*_UNUSED)
def models(
    kinds: tuple[str, ...],
    fields: tuple[str, ...],
    files: tuple[str, ...],
    output: str | None,
    check: bool,
    file: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Write typed models of built-in kinds, or of kinds of other operators."""
    target = Path(output) if output else None
    if check and target is None:
        raise click.UsageError("--check goes with --output FILE, the module to compare")
    request = ModuleRequest(kinds_named(kinds), fields, files)
    before = _text(target) if target else None
    if not kinds and not files:
        request = _recorded(output, before)
    settings = load_settings(None, file, assignments, flags).settings
    try:
        text = generated_text(request, settings, output)
    except UsageError as error:
        if check:
            raise click.ClickException(f"{output} differs from the API: {error}") from error
        raise click.UsageError(str(error)) from error
    if target is None:
        click.echo(text, nl=False)
    elif check:
        _compare(target, before, text)
    else:
        _write(target, before, text)


def kinds_named(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the kinds that arguments name: an API version applies to the kinds after it.

    Raises click.UsageError for a kind without a version, and for a version without a kind.

    >>> kinds_named(["batch/v1", "Job", "CronJob", "v1", "Pod"])
    (('batch/v1', 'Job'), ('batch/v1', 'CronJob'), ('v1', 'Pod'))
    """
    named: list[tuple[str, str]] = []
    version, is_used = "", True
    for word in words:
        if _API_VERSION.fullmatch(word):
            if not is_used:
                break
            version, is_used = word, False
        elif not version:
            raise click.UsageError(
                f"{word}: write the API version before the kind, as in: konverge models batch/v1 Job"
            )
        else:
            named.append((version, word))
            is_used = True
    if not is_used:
        raise click.UsageError(f"{version}: write a kind after the API version, as in: konverge models batch/v1 Job")
    return tuple(dict.fromkeys(named))


def generated_text(request: ModuleRequest, settings: Settings, output: str | None) -> str:
    """Return the module of a request; raises UsageError for kinds and fields that do not exist."""
    from konverge.crds.foreign.documents import find_kind, kinds_in, parsed
    from konverge.crds.foreign.rendering import generated

    if request.files:
        known = [
            kind
            for file in request.files
            for document in parsed(_content(file), file)
            for kind in kinds_in(document, file)
        ]
        source = " and ".join(request.files)
    else:
        known = asyncio.run(_from_cluster(settings, [version for version, _ in request.kinds]))
        source = "the cluster"
    if request.kinds:
        chosen = [find_kind(known, version, kind, source) for version, kind in request.kinds]
    else:
        chosen = _of_definitions(known, source)
    request = request._replace(kinds=tuple((kind.api_version, kind.kind) for kind in chosen))
    return generated(chosen, request.fields, request.arguments(output))


def _of_definitions(known: Sequence[ForeignKind], source: str) -> list[ForeignKind]:
    """Return the kinds of CustomResourceDefinitions in their stored versions; an OpenAPI document has too many kinds."""
    if not known or any(kind.definitions for kind in known):
        names = ", ".join(f"{kind.api_version} {kind.kind}" for kind in known[:5]) or "no kinds"
        raise UsageError(f"name the kinds; {source} has {names}{', ...' if len(known) > 5 else ''}")
    return [kind for kind in known if kind.stored]


async def _from_cluster(settings: Settings, versions: Iterable[str]) -> list[ForeignKind]:
    from konverge.client import Client
    from konverge.daemon.engine import client_config

    async with Client(await client_config(settings), name="konverge-models") as client:
        return await cluster_kinds(client, versions)


async def cluster_kinds(client: Client, versions: Iterable[str]) -> list[ForeignKind]:
    """Return the kinds of API versions, as the cluster publishes them; raises UsageError for a version that it does not serve."""
    import msgspec

    from konverge.crds.foreign.documents import kinds_in, near

    kinds: list[ForeignKind] = []
    for version in dict.fromkeys(versions):
        try:
            document = await client.raw("GET", f"/openapi/v3/{'apis' if '/' in version else 'api'}/{version}")
        except NotFound:
            index = msgspec.json.decode(await client.raw("GET", "/openapi/v3"))
            served = [path.partition("/")[2] for path in index["paths"] if path.startswith(("api/", "apis/"))]
            raise UsageError(f"the cluster does not serve {version}; {near(version, served)}") from None
        kinds += kinds_in(msgspec.json.decode(document), "the cluster")
    return kinds


def _recorded(output: str | None, text: str | None) -> ModuleRequest:
    """Return the request in the first lines of a module."""
    from konverge.crds.foreign.rendering import command_in

    if output is None or text is None:
        missing = f"{output} does not exist, so " if output else ""
        raise click.UsageError(f"{missing}name the kinds, as in: konverge models batch/v1 Job")
    arguments = command_in(text)
    if arguments is None:
        raise click.UsageError(f"{output} was not written by konverge models: name the kinds")
    given = models.make_context("models", arguments).params
    return ModuleRequest(kinds_named(given["kinds"]), given["fields"], given["files"])


def _compare(target: Path, before: str | None, text: str) -> None:
    from konverge.crds.foreign.drift import differences

    if before is None:
        raise click.ClickException(f"{target} does not exist; write it without --check")
    try:
        lines = differences(before, text)
    except UsageError as error:
        raise click.ClickException(f"{target}: {error}") from error
    if lines:
        shown = "".join(f"\n  {line}" for line in lines)
        raise click.ClickException(f"{target} differs from the API; konverge models -o {target} writes it again{shown}")
    click.echo(f"{target}: as in the API")


def _write(target: Path, before: str | None, text: str) -> None:
    from konverge.crds.foreign.rendering import command_in

    if before is not None and before.strip() and command_in(before) is None:
        raise click.UsageError(f"{target} was not written by konverge models; choose another file, or remove it")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{target}: {error.strerror or error}") from error
    number = text.count("\nclass ")
    hint = "; --fields selects some of them" if number > _MANY else ""
    click.echo(f"{target}: {number} classes{hint}" if number > 1 else f"{target}: 1 class")


def _text(target: Path) -> str | None:
    """Return the text of a module, None if it does not exist."""
    try:
        return target.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{target}: {getattr(error, 'strerror', None) or error}") from error


def _content(file: str) -> str:
    """Return the text of a file of schemas, or of the input."""
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            return str(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--from {file}: {getattr(error, 'strerror', None) or error}") from error
