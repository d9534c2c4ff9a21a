"""Write the man page and the completion scripts, which are installed in `share/`, from the commands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from hpc_board.cli.main import cli, loaded

SHARE = Path(__file__).resolve().parents[1] / "share"

_COMPLETIONS = {
    "bash": "bash-completion/completions/hpc-board",
    "zsh": "zsh/site-functions/_hpc-board",
    "fish": "fish/vendor_completions.d/hpc-board.fish",
}

_FILES = """\
.SH FILES
.TP
\\&./hpc-board.yaml, ~/.config/hpc-board/config.yaml, /etc/hpc-board/config.yaml
The settings; the first one counts.
.SH ENVIRONMENT
.TP
HPC_BOARD_CONFIG
The settings file.
.TP
HPC_BOARD_SERVICE
The socket or the address of a service.
.TP
NO_COLOR, FORCE_COLOR
Output without and with colours.
.SH EXIT STATUS
0 success, 1 a run did not pass, 2 wrong usage or settings, 3 the scheduler or a job failed, 4 time-out, 5 refused.
"""


def shell_files() -> dict[str, str]:
    """Return the texts of all files by their paths in `share/`."""
    scripts = {}
    for shell, path in _COMPLETIONS.items():
        completion = get_completion_class(shell)
        if completion is None:
            raise LookupError(f"click has no completion for {shell}")
        scripts[path] = completion(cli, {}, "hpc-board", "_HPC_BOARD_COMPLETE").source().rstrip() + "\n"
    return {"man/man1/hpc-board.1": man_page(), **scripts}


def man_page() -> str:
    """Return the manual page of all commands, in the format of man."""
    root = click.Context(cli, info_name="hpc-board", **cli.context_settings)
    parts = [
        '.TH HPC-BOARD 1 "" "" "hpc-board"\n.SH NAME\nhpc-board \\- GPU-kernel leaderboards on a Slurm cluster\n',
        f".SH SYNOPSIS\n{_roff(_synopsis(root))}\n.SH DESCRIPTION\n{_about(cli)}",
        f".SH OPTIONS\n{_options(cli, root)}.SH COMMANDS\n",
        *_commands(root),
        _FILES,
    ]
    return "".join(parts)


def _commands(parent: click.Context) -> Iterator[str]:
    for name, each in getattr(parent.command, "commands", {}).items():
        command = loaded(each)
        context = click.Context(command, info_name=name, parent=parent)
        yield f".SS {_roff(_synopsis(context))}\n{_about(command)}{_options(command, context)}"
        if isinstance(command, click.Group):
            yield from _commands(context)


def _synopsis(context: click.Context) -> str:
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _about(command: click.Command) -> str:
    paragraphs = (command.help or "").replace("\b\n", "").split("\n\n")
    return "".join(f".PP\n{_roff(' '.join(each.split()))}\n" for each in paragraphs)


def _options(command: click.Command, context: click.Context) -> str:
    records = (each.get_help_record(context) for each in command.get_params(context))
    return "".join(f".TP\n{_roff(names)}\n{_roff(text)}\n" for names, text in filter(None, records))


def _roff(text: str) -> str:
    """Return a text whose characters have no meaning for roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write all files."""
    for name, text in shell_files().items():
        path = SHARE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
