"""Commands that are imported when they run; help and completion of the list of commands import none."""

from importlib import import_module

import click

from hpc_board.cli.global_options import take_global_options
from hpc_board.cli.options import take_text


class LazyCommand(click.Command):
    """A placeholder for a command that is not imported: its name and the first line of its help."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """Stand in for `target`, a `module:attribute` of this package."""
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self._target.partition(":")
        found = getattr(import_module(f"hpc_board.cli.{module}"), attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self._target} is not a command")
        take_text(found)
        take_global_options(found)
        return found


def loaded(command: click.Command) -> click.Command:
    """Return a command; import it if it is a placeholder."""
    return command.load() if isinstance(command, LazyCommand) else command
