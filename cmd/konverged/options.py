"""Options that several commands share: the flags for settings, the target, and output for scripts.

Guarantees: top-level settings have flags of their own, every setting is set by `--set path=value`; a flag that is not given changes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from konverge.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from konverge.daemon.config import Loaded
    from konverge.daemon.programs import Build
    from konverge.daemon.settings import Settings

__all__ = [
    "chosen_build",
    "load_settings",
    "output_option",
    "print_json",
    "print_text",
    "read_certificates",
    "settings_options",
    "settings_options_without",
    "target_argument",
    "visible",
]

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("--kubeconfig",), "FILE", "The kubeconfig; else $KUBECONFIG, the mounted ServiceAccount, ~/.kube/config."),
    (("--context",), "NAME", "The context of the kubeconfig."),
    (("--namespace", "-n"), "NAME", "Watch only this namespace; without, the whole cluster."),
    (("--controllers",), "NAMES", "Run only these controllers or families (a,b)."),
    (("--metrics",), "ADDRESS", "Where /metrics is served (:8080); 0 for nowhere."),
    (("--health",), "ADDRESS", "Where /healthz and /readyz are served (:8081); 0 for nowhere."),
    (("--debug",), "ADDRESS", "Where /debug is served, to callers on loopback (127.0.0.1:8082); 0 for nowhere."),
    (("--log-level",), "LEVEL", "debug, info, warning or error."),
    (("--log-format",), "FORMAT", "auto, json or console."),
    (("--drain",), "SECONDS", "Time for running reconciles after SIGTERM (25)."),
    (
        ("--sharding",),
        "MODE",
        "How replicas share the objects: off, leader (one has all), hash (each its own), coordinator, ordinal.",
    ),
)

_PATHS = {"sharding": "sharding.mode"}
"""Flags whose setting is within a group."""


def settings_options(function: F) -> F:
    """Add the flags for settings, `--set` and `--config`; the command gets them as one mapping, `flags`."""
    return settings_options_without()(function)


def settings_options_without(*left_out: str) -> Callable[[F], F]:
    """Add the options of `settings_options`, except for the flags of these names, which the command does not use."""
    chosen = [entry for entry in _FLAGS if entry[0][0].removeprefix("--") not in left_out]
    return lambda function: _with_flags(function, chosen)


def _with_flags(function: F, chosen: Sequence[tuple[tuple[str, ...], str, str]]) -> F:
    decorated: Any = function
    decorated = click.option(
        "--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Any setting that konverge config lists."
    )(decorated)
    decorated = click.option(
        "--config", "file", metavar="FILE", default=None, help="A YAML or TOML file of settings; else $KONVERGE_CONFIG."
    )(decorated)
    for names, metavar, text in reversed(chosen):
        decorated = click.option(*names, metavar=metavar, default=None, help=text)(decorated)
    result: F = decorated
    return result


def target_argument(function: F) -> F:
    """Add the optional argument that names a user's operator."""
    result: F = click.argument("target", metavar="[MODULE:BUILD]", required=False)(function)
    return result


def output_option(*choices: str) -> Callable[[F], F]:
    """Add `-o`; the first choice is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="The form of the output.",
    )


def load_settings(
    target: str | None, file: str | None, assignments: tuple[str, ...], flags: dict[str, Any]
) -> Loaded[Settings]:
    """Read every source of settings and print the warnings; bad settings are wrong usage."""
    from konverge.daemon.config import load, parse_assignment
    from konverge.daemon.programs import settings_of

    cls = settings_of(target)
    try:
        given = {_PATHS.get(name, name): value for name, value in flags.items()}
        for text in assignments:
            path, value = parse_assignment(text)
            given[path] = value
        loaded = load(cls, flags=given, environ=os.environ, file=file)
    except (ConfigError, UsageError) as error:
        raise click.UsageError(str(error)) from error
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return loaded


def chosen_build(target: str | None) -> tuple[str, Build | None]:
    """Return the name and the build of a target; without a target, None for the installed families."""
    from konverge.daemon.programs import NAME, load_build

    if target is None:
        return NAME, None
    try:
        return load_build(target)
    except UsageError as error:
        raise click.UsageError(str(error)) from error


def print_text(text: str) -> None:
    """Print a text that may hold texts of tenants, which change no line but their own, and nothing of the terminal."""
    click.echo(visible(text))


def visible(text: str) -> str:
    r"""Return a text with an escape in place of each unprintable character but the newline.

    Unprintable are escape sequences, reversals of the direction and halves of surrogate pairs, among others.

    >>> visible("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\nc'
    """
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1] for character in text
    )


def print_json(data: Any) -> None:
    """Print data as JSON."""
    import json

    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def read_certificates(file: str | None) -> bytes:
    """Return the certificates in the file of `--ca`, nothing without a file."""
    if file is None:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--ca {file}: {error.strerror or error}") from error
