"""`konverge completion`: the shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]


# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP = """Print the completion script of a shell.

\b
bash:  echo 'eval "$(konverge completion bash)"' >> ~/.bashrc
zsh:   echo 'eval "$(konverge completion zsh)"' >> ~/.zshrc
fish:  konverge completion fish > ~/.config/fish/completions/konverge.fish
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from konverge.daemon.main import program

    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(program, {}, "konverge", "_KONVERGE_COMPLETE").source())
