"""`version`: the version of hpc-board."""

import click

from hpc_board import __version__
from hpc_board.cli.options import examples, json_option


@click.command(epilog=examples("hpc-board version", "hpc-board version --json"))
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        from hpc_board.cli.output import print_json
        from hpc_board.report.views.setup import ReleaseView

        print_json(ReleaseView(version=__version__))
    else:
        click.echo(f"hpc-board {__version__}")
