"""Print docs/commands.md, the command reference, from the `--help` of all commands."""

import click

from hpc_board.cli.lazy import loaded
from hpc_board.cli.main import cli

_INTRODUCTION = """\
# Commands

Data goes to stdout, everything else to stderr. Every listing takes `--json`, whose keys are added, never renamed or
removed; times in it are ISO 8601 in UTC, scores in seconds. Commands prompt on a terminal only, before they delete or
replace data or create several boards. Output to a file or pipe, or with `NO_COLOR` set, has no colours.

| exit code | meaning |
|---|---|
| 0 | done; with `--wait` and for `watch`: every run passed |
| 1 | evaluated, and a run did not pass; `task check`: errors were found |
| 2 | wrong usage, bad file, bad settings; also `submit` if the scheduler refused every job |
| 3 | the scheduler or a job failed, not the kernel; `admin check` and `doctor`: a problem was found |
| 4 | time-out of a wait; the runs go on |
| 5 | refused: deadline, rate limit, ban, missing permission; a reset of standings without `--force` |
| 130 | interrupted; sent runs go on |
| 141 | the reader of the output has gone |

`make docs` makes this page from the commands' `--help`.
"""


def commands_page() -> str:
    """The whole page as Markdown."""
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
