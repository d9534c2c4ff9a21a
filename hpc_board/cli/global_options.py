"""The options that every command takes, before or behind its name: settings, colours, and the amount of remarks."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

COLORS = ("auto", "always", "never")

PATH = click.Path(path_type=Path, readable=False)
"""The type of an option or argument that names a file; each new one asks gettext for a word."""


def _keep(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep the value of an option that is given, before or behind the command."""
    if value:
        ctx.meta[f"hpc_board.{parameter.name}"] = value


def _set_color(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None and ctx.parent is not None:
        return
    ctx.color = ctx.find_root().color = {"always": True, "never": False}.get(value or "auto", color_of(os.environ))


def color_of(environ: Any) -> bool | None:
    """Return whether the environment asks for colours or forbids them; None leaves it to the terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return False if environ.get("TERM") == "dumb" else None


def global_options(*, hidden: bool) -> list[click.Option]:
    """Return the options; the help of a single command has them `hidden`."""
    option = partial(click.Option, expose_value=False, hidden=hidden)
    return [
        option(
            ["--config"],
            type=PATH,
            metavar="FILE",
            help="Settings file. Default: $HPC_BOARD_CONFIG, ./hpc-board.yaml, the user's, the system's.",
            callback=_keep,
        ),
        option(
            ["--color"],
            type=click.Choice(COLORS),
            help="Colours: by default on a terminal, unless $NO_COLOR is set; $FORCE_COLOR turns them on.",
            callback=_set_color,
        ),
        option(["-q", "--quiet"], is_flag=True, help="Print only results and errors.", callback=_keep),
        option(["-v", "--verbose"], is_flag=True, help="Print the settings file and the board in use.", callback=_keep),
    ]


def take_global_options(command: click.Command) -> None:
    """Add the options to a command and its subcommands, without a word in their help."""
    taken = {name for param in command.params for name in param.opts}
    command.params += [each for each in global_options(hidden=True) if taken.isdisjoint(each.opts)]
    if isinstance(command, click.Group):
        for each in command.commands.values():
            take_global_options(each)


def config_of(ctx: click.Context) -> Path | None:
    """Return the settings file of `--config`."""
    found: Path | None = ctx.meta.get("hpc_board.config")
    return found


def is_quiet() -> bool:
    """Return whether the command prints no remarks."""
    return _is_set("quiet")


def is_verbose() -> bool:
    """Return whether the command says which settings and board it uses."""
    return _is_set("verbose")


def _is_set(name: str) -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(f"hpc_board.{name}"))
