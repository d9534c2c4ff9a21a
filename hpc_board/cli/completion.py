"""`completion`: completion scripts for bash, zsh and fish."""

import os
from pathlib import PurePath

import click

from hpc_board.cli.options import examples

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=examples(
        'eval "$(hpc-board completion bash)"   # this shell; in ~/.bashrc: every one',
        'eval "$(hpc-board completion zsh)"    # this shell; in ~/.zshrc: every one',
        "hpc-board completion fish > ~/.config/fish/completions/hpc-board.fish",
    )
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a shell completion script.

    It completes commands, options, modes, tasks, GPUs and numbers of runs. The default shell is that of $SHELL.
    """
    from click.shell_completion import get_completion_class

    name = shell or PurePath(os.environ.get("SHELL", "")).name
    found = get_completion_class(name) if name in _SHELLS else None
    if found is None:
        raise click.UsageError(f"no completion for the shell {name!r}. Give one of: {', '.join(_SHELLS)}.")
    click.echo(found(ctx.find_root().command, {}, "hpc-board", "_HPC_BOARD_COMPLETE").source())
