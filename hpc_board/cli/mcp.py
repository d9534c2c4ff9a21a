"""`mcp`: a board as tools for coding agents."""

import signal

import click

from hpc_board.cli.options import Open, examples
from hpc_board.errors import InputError


@click.command(
    epilog=examples(
        "hpc-board mcp                    # started by the agent's client",
        "ssh cluster hpc-board mcp        # the same on a login node, from anywhere",
    )
)
@click.pass_obj
def mcp(open_: Open) -> None:
    """Serve the board to a coding agent (MCP).

    The agent's client starts this command and speaks the Model Context
    Protocol on stdin and stdout, until stdin ends. The tools have the rights
    and limits of this account. It needs the extra `mcp`.
    """
    try:
        from hpc_board.agents.server import serve
    except ModuleNotFoundError as error:
        hint = "Install it where hpc-board is: pip install 'hpc-board[mcp]'"
        raise InputError(f"the module {error.name} of the MCP SDK is not installed.", hint=hint) from error
    # The server's loop would wait for the next line of its input. Any client carries on the runs that it leaves.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    serve(open_())
