"""Commands whose modules are imported when they run: the list of commands, its help and its completion need none."""

from importlib import import_module

import click

from hpc_board.cli.options import take_text


class LazyCommand(click.Command):
    """The name of a command and the first line of its help, in the place of a command that is not imported."""

    def __init__(self, name: str, target: str, summary: str) -> None:
        """Take the place of `target`, in the form `module:attribute`, of this package."""
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self._target.partition(":")
        found = getattr(import_module(f"hpc_board.cli.{module}"), attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self._target} is no command")
        take_text(found)
        return found


def loaded(command: click.Command) -> click.Command:
    """Return the command itself for one that stands in for it."""
    return command.load() if isinstance(command, LazyCommand) else command
