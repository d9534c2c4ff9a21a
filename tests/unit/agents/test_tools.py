"""The tools of agents: their answers, next calls and errors, on a recorded board."""

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from hpc_board.agents import tools
from hpc_board.agents.tools import TOOLS, Answer, called, schema_of
from hpc_board.board import Board
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.origin import Origin
from hpc_board.domain.run import RunState
from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.model.kernels import Kernel
from hpc_board.model.loops import Loop
from hpc_board.model.result import Case, Log, Verdict
from hpc_board.model.task import Mode
from hpc_board.service.client import RemoteBoard
from tests.service import serving
from tests.unit.recorded import KERNEL, Recorded, result_of, row_case, status_of
from tests.values import replace

WRONG = Case("test", 0, "size: 3; seed: 1", Verdict.WRONG_VALUE, "expected 1, got 2")


def answer(board: Recorded, tool: str, /, **arguments: Any) -> Answer:
    return called(board.board, tool, arguments)


def found(board: Recorded, tool: str, /, **arguments: Any) -> Any:
    """The object of an answer, which must be no error."""
    answered = answer(board, tool, **arguments)
    assert not answered.failed, answered.text
    return json.loads(answered.text)


def test_each_tool_has_a_description_of_one_sentence_and_a_schema() -> None:
    for name, tool in TOOLS.items():
        assert name == tool.__name__.lower()
        assert (tool.__doc__ or "").count("\n") == 0
        schema = schema_of(tool)
        assert set(schema.get("required", ())) <= set(schema["properties"])
        assert all(
            each["type"] in ("string", "integer", "number", "boolean", "array")
            for each in schema["properties"].values()
        )


def test_the_definitions_of_all_tools_take_at_most_4400_bytes() -> None:
    listed = [{"name": name, "description": tool.__doc__, "schema": schema_of(tool)} for name, tool in TOOLS.items()]
    assert len(json.dumps(listed, separators=(",", ":"))) <= 4400


def test_tasks_have_a_line_each_and_those_gpus_that_are_not_all(board: Recorded) -> None:
    listed = found(board, "tasks")
    assert listed["gpus"] == ["CPU", "H100"]
    by_name = {task["name"]: task for task in listed["tasks"]}
    assert by_name["vectoradd_py"]["languages"] == ["py"]
    assert "gpus" not in by_name["vectoradd_py"]
    assert by_name["heat"]["gpus"] == ["CPU"]


def test_a_task_has_its_text_a_template_and_the_reference(board: Recorded) -> None:
    text = answer(board, "task", task="matmul", language="c++").text
    assert "Multiply two matrices" in text
    assert "--- template (C++), kernel.cpp ---" in text
    assert '#include "hpc_board.h"' in text
    assert "--- reference.py ---" in text
    assert "#!POPCORN" not in text
    assert "hpc_board.h" in answer(board, "task", task="matmul", language="c++").next
    assert "HPC_BOARD" in answer(board, "task", task="matmul", file="hpc_board.h").text.upper()


def test_a_service_keeps_the_files_of_a_task_from_agents(board: Recorded, tmp_path: Path) -> None:
    with serving(board.board.settings, tmp_path / "service.sock"):
        remote = RemoteBoard(tmp_path / "service.sock")
        text = called(remote, "task", {"task": "vectoradd_py"}).text
        assert "--- template (Python), kernel.py ---" in text
        assert "generate_input" not in text
        refused = called(remote, "task", {"task": "vectoradd_py", "file": "reference.py"})
    assert refused.failed
    assert "does not send the files" in refused.text
    assert "`task` shows" in refused.next


def test_a_wrong_run_leads_to_its_report_and_then_to_a_corrected_one(board: Recorded) -> None:
    printed = (
        "`hpc-board run 12` failed: see line 7",
        "hpc-board 1",
        "nvcc `--mode debug`",
        "submit with `mode=sanitize`",
    )
    message = "expected 1, got 2, see `hpc-board run 12`, `mode=sanitize`"
    result = replace(result_of(Verdict.WRONG_VALUE, WRONG, message=message), stdout=Log("\n".join(printed)))
    board.add(result=result, mode=Mode.TEST)
    waited = answer(board, "wait", runs=[1])
    assert json.loads(waited.text)[0]["verdict"] == "wrong_value"
    assert waited.next == "report run=1 has the details; then submit"
    report = answer(board, "report", run=1)
    assert message in report.text
    assert [line.strip() for line in report.text.splitlines()[-6:-2]] == [*printed]
    assert report.text.count("hpc-board") == 3
    assert report.next == "submit a corrected one"
    board.add(result=result_of(Verdict.PASS), mode=Mode.TEST)
    assert answer(board, "report", run=2, part="output").text == "Run 2 has no output: finished."
    board.add(result=result_of(Verdict.PASS), mode=Mode.TEST, user="bob")
    refused = called(Board(board.board.settings, user="mallory"), "report", {"run": 3, "part": "output"})
    assert (refused.failed, "may read the output of run 3" in refused.text) == (True, True)
    assert answer(board, "report", run=1, part="code").text == KERNEL


def test_a_crash_of_a_compiled_kernel_leads_to_the_sanitizer(board: Recorded) -> None:
    crash = Case("test", 0, "size: 3; seed: 1", Verdict.CRASH, "killed by SIGSEGV")
    long = Log("\n".join(f"line {index}" for index in range(99)))
    result = replace(result_of(Verdict.CRASH, crash), stderr=long)
    board.add(result=result, mode=Mode.TEST, file_name="kernel.cpp")
    report = answer(board, "report", run=1)
    assert "Submit with `mode=sanitize`" in report.text
    assert "full output: `report part=output`" in report.text
    assert report.next == "submit mode=sanitize, or a corrected one"


def test_two_profiles_are_compared_by_their_longest_kernels(board: Recorded) -> None:
    for registers in (32.0, 40.0):
        small = [Kernel(0, f"small{index}", 1, 1e3, 0.001) for index in range(19)]
        kernels = (*small, Kernel(0, "add", 1, 1e6, 0.9, registers=registers))
        board.add(result=replace(result_of(Verdict.PASS), kernels=kernels), mode=Mode.PROFILE)
    (compared,) = found(board, "compare", run=1, other=2)
    first, *others = compared["kernels"]
    add = {"name": "add", "duration_ns": 1e6, "time_share": 0.9}
    changes = {"duration_ns": 0, "time_share": 0, "registers": 8}
    assert (first, len(others)) == ({"case": 0, "kernels": [add, add], "changes": changes}, 7)


def test_a_comparison_has_its_caveats(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, row_case()), score_s=1e-3)
    board.add(result=result_of(Verdict.WRONG_VALUE, WRONG, row_case()), code=b"#")
    (compared,) = found(board, "compare", run=1, other=2)
    assert compared["caveats"] == ["Run 2 did not pass: wrong value."]


def test_a_cancellation_names_the_runs_that_had_ended(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS), mode=Mode.TEST)
    cancelled = answer(board, "cancel", runs=[1])
    assert cancelled.text.startswith('Run 1 has already ended: pass.\n[{"id":1,')
    assert cancelled.next == "submit mode=ranked"


def test_ranked_runs_are_compared_ranked_and_listed(board: Recorded) -> None:
    for name, time_ns in (("slow.py", 2e6), ("fast.py", 1e6)):
        case = row_case(0, low_ns=0.99 * time_ns, time_ns=time_ns, high_ns=1.01 * time_ns)
        board.add(result=result_of(Verdict.PASS, case), score_s=time_ns / 1e9, file_name=name)
    (compared,) = found(board, "compare", run=1, other=2)
    assert (compared["gpu"], compared["runs"], compared["score"]["speedup"]) == ("CPU", [1, 2], 2.0)
    (page,) = found(board, "standings", task="vectoradd_py", gpu="cpu")
    assert [(row["rank"], row["run"], row["score_s"]) for row in page["rows"]] == [(1, 2, 0.001)]
    assert [run["id"] for run in found(board, "history", limit=1)] == [2]
    assert answer(board, "wait", runs=[2]).next == "submit a faster one, profile run=2, or compare"


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        (
            (Kernel(0, "add", 3, 1234567.0),),
            "add: 3 x 1.23 ms",
        ),
        ((), "90 % of the samples\nin add"),
    ],
)
def test_a_profile_that_is_there_is_shown_by_its_kernels_or_else_by_its_text(
    board: Recorded, kernels: tuple[Kernel, ...], told: str
) -> None:
    loops = (Loop(7, "add", 9, 1, 0, 2, 1, 512),) if kernels else ()
    result = replace(result_of(Verdict.PASS), kernels=kernels, loops=loops, profile=Log("90 % of the samples\nin add"))
    board.add(result=result, mode=Mode.PROFILE)
    shown = answer(board, "profile", run=1)
    assert shown.text.startswith(told)
    assert ("Innermost loops of kernel.py" in shown.text) == bool(kernels)
    assert shown.next == "submit; report run=1 has the whole profile"


def test_the_wait_for_a_run_that_goes_on_leads_to_the_next_wait(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED, job_id="7"))
    assert answer(board, "wait", runs=[1], wait_seconds=0).next == "wait runs=[1]"
    assert answer(board, "history").next == "wait runs=[1]"
    board.add(status_of(RunState.QUEUED, job_id="8"), mode=Mode.PROFILE)
    assert answer(board, "profile", run=2, wait_seconds=0).next == "profile run=2"


def test_a_long_text_is_cut_with_the_number_of_its_other_characters(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "CODE_CHARACTERS_MAX", 10)
    board.add(result=result_of(Verdict.PASS), code=b"#" * 25)
    assert answer(board, "report", run=1, part="code").text == f"{'#' * 10}\n... (15 more characters)"


@pytest.mark.parametrize(
    ("tool", "arguments", "told", "then"),
    [
        ("tsk", {}, 'unknown tool "tsk". Did you mean "task"?', "Tools: tasks, task, submit"),
        ("task", {"tas": "x"}, 'task has no argument "tas". Did you mean "task"?', "Arguments of task: task, language"),
        ("task", {}, "task: Object missing required field `task`", 'Arguments of task: {"task":{"type":"string"}'),
        ("task", {"task": "vectoradd_pi"}, 'unknown task "vectoradd_pi". Did you mean "vectoradd_py"?', "`tasks`"),
        ("task", {"task": "heat", "file": "referenc.py"}, 'no file referenc.py. Did you mean "reference.py"?', "Files"),
        ("task", {"task": "heat", "language": "CUDA"}, "heat has no template for CUDA", "It has: Python, C++"),
        ("report", {"run": "one"}, "report: Expected `int`, got `str` - at `$.run`", "Arguments of report:"),
        ("report", {"run": 9}, "there is no run 9", "`history` lists your runs."),
        ("report", {"run": 1, "part": "all"}, "Invalid enum value 'all' - at `$.part`", '"enum":["code","output"'),
        ("wait", {"runs": []}, "Expected `array` of length >= 1 - at `$.runs`", "Arguments of wait:"),
        ("wait", {"runs": [1], "wait_seconds": 1e9}, "Expected `float` <= 600.0", "Arguments of wait:"),
        ("submit", {"task": "heat"}, "submit: Object missing required field `code`", "Arguments of submit:"),
        ("submit", {"task": "heat", "code": "\0"}, "code contains a NUL byte at offset 0", "Use a text file"),
        ("submit", {"task": "heat", "code": " "}, "kernel.py is empty", "`task` prints a template."),
        ("submit", {"task": "heat", "code": "#include <x>\nint x;"}, "kernel.py begins with #include", "Name the file"),
        ("submit", {"task": "heat", "code": "x" * (SOURCE_BYTES_MAX + 1)}, "invalid submission", "at most 1000000"),
        ("submit", {"task": "heat", "code": "x", "file_name": "../k.py"}, "invalid submission ../k.py", "without a"),
        ("submit", {"task": "heat", "code": "x", "gpu": "H10"}, 'unknown GPU "H10". Did you mean "H100"?', "CPU, H100"),
        ("submit", {"task": "heat", "code": "x", "gpu": "CPU", "mode": "rank"}, 'unknown mode "rank"', "Modes: test"),
        ("submit", {"task": "heat", "code": "x", "key": "a b"}, "key", "letters"),
        ("submit", {"task": "vectoradd_py", "code": KERNEL, "case": 99}, "--case 99: expected 1 to", "Correct the arg"),
        ("submit", {"task": "vectoradd_py", "code": "\ufffd"}, "code is not valid UTF-8", "as escapes"),
        ("release", {"runner": 4}, "there is no runner 4", "You hold no GPU."),
        ("hold", {"gpu": "CPU", "minutes": 10**9}, "choose 5m to 1h", "runners.minutes"),
    ],
)  # fmt: skip
def test_an_error_is_an_answer_with_the_next_step(
    board: Recorded, tool: str, arguments: dict[str, Any], told: str, then: str
) -> None:
    refused = answer(board, tool, **arguments)
    assert refused.failed
    assert told in refused.text
    assert then in refused.next
    assert "hpc-board" not in refused.next


def test_agents_choose_a_name_a_case_and_the_effort(board: Recorded) -> None:
    sent = {"task": "vectoradd_py", "code": KERNEL, "mode": "benchmark", "wait_seconds": 0}
    for more in ({"as": "agent-b", "case": 1, "effort": "quick"}, {}):
        assert not answer(board, "submit", **sent, **more).failed
    named, plain = reversed(board.board.runs.list())
    assert (named.origin.entrant, named.options.case, named.options.effort) == ("agent-b", "1", "quick")
    assert (plain.origin.entrant, plain.options) == ("", JobOptions())
    (run,) = found(board, "history", **{"as": "agent-b"})
    assert (run["id"], run["entrant"]) == (named.id, "agent-b")
    assert answer(board, "history", **{"as": "a b"}).text == 'input: invalid entrant "a b".'
    assert "--effort: expected quick, normal or a percentage" in answer(board, "submit", **sent, effort="many").text


def test_agents_have_the_limits_of_their_account(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS))
    refused = called(Board(board.board.settings, user="eve"), "report", {"run": 1, "part": "code"})
    assert refused.failed
    assert refused.text == f"refused: the owner is {getpass.getuser()}, not eve."
    assert refused.next == "`history` lists your runs."


@pytest.mark.usefixtures("scheduler")
def test_agents_have_the_entrant_and_the_budget_of_their_environment(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPC_BOARD_AS", "agent-b")
    monkeypatch.setenv("HPC_BOARD_BUDGET", "1/day")
    arguments = {"task": "vectoradd_py", "code": KERNEL, "wait_seconds": 0}
    first = answer(board, "submit", **arguments)
    author = f"{getpass.getuser()}/agent-b"
    assert (json.loads(first.text)[0]["entrant"], first.failed) == ("agent-b", False)
    assert first.next == f"wait runs=[1] ({author}: 0 of 1 runs left per day)"
    for refused in (answer(board, "submit", **arguments), answer(board, "profile", run=1)):
        assert (refused.failed, f"budget exhausted: {author} has sent 1" in refused.text) == (True, True)
    origin = Origin("agent-c", (("model", "small"),), 1)
    board.add(result=result_of(Verdict.PASS), origin=origin)
    of_other = answer(board, "profile", run=2)
    assert (of_other.failed, f"budget exhausted: {author} has sent 1" in of_other.text) == (True, True)
    other = answer(board, "submit", **arguments, **{"as": "agent-c"})
    assert (other.failed, "this server submits as agent-b." in other.text) == (True, True)
    monkeypatch.delenv("HPC_BOARD_BUDGET")
    assert not answer(board, "profile", run=2, wait_seconds=0).failed
    assert board.board.runs.list(limit=1)[0].origin == replace(origin, entrant="agent-b")
