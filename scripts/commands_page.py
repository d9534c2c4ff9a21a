"""Print docs/commands.md, the command reference, from what `hpc-board --help` and its commands say."""

import click

from hpc_board.cli.lazy import loaded
from hpc_board.cli.main import cli

_INTRODUCTION = """\
# Commands

Data goes to stdout, everything else to stderr. Every listing takes `--json`, whose keys are added, never renamed or
removed; times in it are ISO 8601 UTC, scores seconds. Without a terminal nothing ever prompts; on one, only what
deletes or replaces, and what makes several boards. There are no colours where stdout is no terminal, or where
`NO_COLOR` is set.

| exit code | meaning |
|---|---|
| 0 | done; with `--wait` and for `watch`: every run passed |
| 1 | evaluated, and some run did not pass; `task check`: errors were found |
| 2 | usage, a bad file, bad settings; also `submit` where the scheduler refused every job |
| 3 | the scheduler or a job failed, which is not the kernel's fault; `admin check` and `doctor`: a problem was found |
| 4 | gave up waiting; the runs go on |
| 5 | refused: deadline, rate limit, banned, or not allowed; standings that would start anew without `--force` |
| 130 | interrupted; runs that were sent go on |
| 141 | whoever read the output has gone |

This page is made from the commands' own `--help` by `make docs`.
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
