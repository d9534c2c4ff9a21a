"""An agent that is a script: it tunes the bundled task `heat` in ten steps by `hpc-board mcp`, and counts bytes."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.harness.evaluations import QUICK

TASK = "heat"
BYTES_OF_TOKEN = 4
"""The usual estimate for English and code; a tokenizer of one vendor would fit no other."""

_SHIFTS = """\
import numpy as np

def custom_kernel(data):
    now, steps = data
    for _ in range(steps):
        mean = sum((np.roll(now, way, axis) for axis in (0, 1) for way in (-1, 1)), now) * np.float32(0.2)
"""
WRONG = f"{_SHIFTS}        now = mean\n    return now\n"
PLAIN = WRONG.replace("now = mean", "now = now.copy()\n        now[1:-1, 1:-1] = mean[1:-1, 1:-1]")
BLOCKS = """\
import numpy as np

def custom_kernel(data):
    plate, steps = data
    now, then = plate.copy(), plate.copy()
    for _ in range(steps):
        for begin in range(1, len(plate) - 1, ROWS):
            end = min(begin + ROWS, len(plate) - 1)
            out = then[begin:end, 1:-1]
            np.add(now[begin - 1 : end - 1, 1:-1], now[begin + 1 : end + 1, 1:-1], out=out)
            out += now[begin:end, :-2]
            out += now[begin:end, 2:]
            out += now[begin:end, 1:-1]
            out *= np.float32(0.2)
        now, then = then, now
    return now
"""
STEPS = (
    ("shifted plates", WRONG),
    ("the border kept", PLAIN),
    *((f"blocks of {rows} rows", BLOCKS.replace("ROWS", str(rows))) for rows in (4096, 8, 16, 32, 64, 128, 256, 512)),
)
"""The notes and kernels of the ten steps; the first is wrong."""


@dataclass(frozen=True)
class Call:
    """A call of a tool with the bytes of its arguments and of its answer."""

    tool: str
    sent: int
    received: int


@dataclass
class Agent:
    """A client of a server, with the calls that it has made."""

    session: ClientSession
    calls: list[Call] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)

    async def definitions(self) -> list[dict[str, Any]]:
        """The definitions of the tools, which an agent reads first."""
        listed = await self.session.list_tools()
        found = [tool.model_dump(exclude_none=True, by_alias=True) for tool in listed.tools]
        self._count("(tools)", "", f"{self.session.instructions}\n{json.dumps(found, separators=(',', ':'))}")
        return found

    async def call(self, tool: str, /, **arguments: Any) -> tuple[str, str]:
        """The text of an answer and its next call; an error has "error: " before it."""
        answer = await self.session.call_tool(tool, arguments)
        text, then = (content.text for content in answer.content if content.type == "text")
        self._count(tool, json.dumps(arguments, separators=(",", ":")), f"{text}\n{then}")
        return f"{'error: ' if answer.is_error else ''}{text}", then.removeprefix("next: ")

    async def run(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The only run of an answer, once it has ended."""
        text, then = await self.call(tool, **arguments)
        while then.startswith("wait "):
            text, then = await self.call("wait", runs=json.loads(then.removeprefix("wait runs=")))
        found: dict[str, Any] = json.loads(text)[0]
        return found

    @property
    def tokens(self) -> int:
        """The tokens of all that the agent has read and written."""
        return sum(each.sent + each.received for each in self.calls) // BYTES_OF_TOKEN

    def _count(self, tool: str, sent: str, received: str) -> None:
        self.calls.append(Call(tool, len(sent.encode()), len(received.encode())))
        self.transcript += [f"> {tool} {sent}", received]


@asynccontextmanager
async def agent(
    environ: Mapping[str, str], *words: str, command: str = sys.executable, wait_seconds: float = 120
) -> AsyncIterator[Agent]:
    """A client of a server that is a process of its own, with these words before `mcp`."""
    parameters = StdioServerParameters(command=command, args=["-m", "hpc_board", *words, "mcp"], env=dict(environ))
    async with stdio_client(parameters) as streams, ClientSession(*streams, wait_seconds) as session:
        await session.initialize()
        yield Agent(session)


async def tune(agent: Agent, gpu: str, mode: str = "ranked") -> list[dict[str, Any]]:
    """Tune the task in ten steps, each a kernel that is submitted, and return the runs."""
    await agent.definitions()
    await agent.call("tasks")
    await agent.call("task", task=TASK)
    await agent.call("hold", gpu=gpu)
    runs: list[dict[str, Any]] = []
    for note, code in STEPS:
        runs.append(await agent.run("submit", task=TASK, code=code, gpu=gpu, mode=mode, note=note))
        if runs[-1]["verdict"] != "pass":
            await agent.call("report", run=runs[-1]["id"])
    _, then = await agent.call("profile", run=runs[2]["id"])
    while then.startswith("profile "):
        _, then = await agent.call("profile", run=int(then.removeprefix("profile run=")))
    await agent.call("compare", run=runs[1]["id"], other=runs[-1]["id"])
    await agent.call("standings", task=TASK, gpu=gpu)
    await agent.call("history", task=TASK, limit=3)
    return runs


def tuned(
    environ: Mapping[str, str], *words: str, gpu: str, mode: str = "ranked"
) -> tuple[Agent, list[dict[str, Any]]]:
    """Tune the task through a server of its own; return the agent, and the runs."""

    async def session() -> tuple[Agent, list[dict[str, Any]]]:
        async with agent(environ, *words) as client:
            return client, await tune(client, gpu, mode)

    return asyncio.run(session())


def write_quick_task(folder: Path) -> None:
    """Copy the task into a folder, with fewer calls."""
    tasks = Path(__file__).resolve().parents[1] / "tasks"
    shutil.copytree(tasks / TASK, folder / TASK)
    shutil.copy(tasks / "utils_np.py", folder)
    document = yaml.safe_load((tasks / TASK / "task.yml").read_text())
    document["hpc_board"]["limits"] = {**QUICK, "workers": 1, "call_seconds": 20, "first_call_seconds": 20}
    (folder / TASK / "task.yml").write_text(yaml.safe_dump(document))


def check_tuned(agent: Agent, runs: list[dict[str, Any]]) -> None:
    """Check the runs of the ten steps, and their costs."""
    assert [run["verdict"] for run in runs] == ["wrong_value", *["pass"] * (len(STEPS) - 1)]
    assert all(run["score_s"] > 0 for run in runs[1:])
    assert {each.tool for each in agent.calls} >= {"task", "submit", "report", "profile", "compare", "standings"}
    assert (len(agent.calls) <= 25, agent.tokens <= 6000) == (True, True), agent.calls
