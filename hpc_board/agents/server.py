"""The server of the Model Context Protocol on standard input and output."""

import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import anyio
from anyio.to_thread import run_sync
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as Definition

from hpc_board import __version__
from hpc_board.agents.tools import TOOLS, called, schema_of
from hpc_board.board import Board

_INSTRUCTIONS = (
    "GPU-kernel leaderboards. First task, then submit in mode test until it passes, then in mode ranked. Each answer "
    "ends with the next call. A run takes time on a shared machine: submit one idea at a time, with a note."
)


def serve(board: Board) -> None:
    """Answer an agent on standard input and output until the input ends; then end the process."""
    anyio.run(_serve, board)
    # Python would wait for the thread of a call that waits for runs. Any client carries the runs on.
    os._exit(0)


async def _serve(board: Board) -> None:
    definitions = ListToolsResult(
        tools=[
            Definition(
                name=name,
                description=tool.__doc__,
                input_schema=schema_of(tool),
                annotations=ToolAnnotations(read_only_hint=True) if tool.only_reads else None,
            )
            for name, tool in TOOLS.items()
        ]
    )

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return definitions

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        call = partial(called, board, params.name, params.arguments or {})
        answer = await run_sync(call, abandon_on_cancel=True)
        texts = (answer.text, f"next: {answer.next}")
        return CallToolResult(content=[TextContent(text=text) for text in texts], is_error=answer.failed)

    server = Server(
        "hpc-board",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    lines = cast("anyio.AsyncFile[str]", _lines())
    async with stdio_server(lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of standard input, with U+FFFD for each byte and each escape in JSON that is no text in UTF-8.

    The SDK gives no answer to a call with half of a surrogate pair.
    """
    with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as stdin:
        async for line in anyio.wrap_file(stdin):
            try:
                text = json.dumps(json.loads(line), ensure_ascii=False) if "\\ud" in line.lower() else line
            except (ValueError, RecursionError):
                text = line
            yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
