"""Print docs/commands.md, the command reference, from the help of `hpc-board` and its commands."""

import click

from hpc_board.cli.main import cli, loaded

_INTRODUCTION = """\
# Commands

Commands prompt on a terminal only, before they delete or replace data, or create several boards. Output has colours on
a terminal, unless `NO_COLOR` is set; `FORCE_COLOR` and `--color` decide otherwise. `--config`, `--color`, `--quiet` and
`--verbose` stand before or behind the command. [In scripts](scripts.md) has the exit codes and the form of JSON.

`make docs` generates this page from the commands' `--help`.
"""


def commands_page() -> str:
    """Return the whole page as Markdown."""
    sections = [_INTRODUCTION, _section("hpc-board", cli, None)]
    group = click.Context(cli, info_name="hpc-board")
    for name, command in ((name, loaded(each)) for name, each in cli.commands.items()):
        sections.append(_section(f"hpc-board {name}", command, group))
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=group)
            sections += [_section(f"hpc-board {name} {key}", each, inner) for key, each in command.commands.items()]
    return "\n".join(sections)


def _section(title: str, command: click.Command, parent: click.Context | None) -> str:
    settings = {**cli.context_settings, **command.context_settings, "terminal_width": 80}
    context = click.Context(command, info_name=title.rpartition(" ")[2], parent=parent, **settings)
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    print(commands_page(), end="")
