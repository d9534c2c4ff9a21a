"""The command line: what it prints, where it prints it, and how it exits. Nothing is evaluated here."""

import errno
import fcntl
import json
import os
import pty
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from hpc_board.board import Board, parts
from hpc_board.board.runs import Runs
from hpc_board.cli.main import cli, loaded
from hpc_board.domain.run import Cancellation, RunState
from hpc_board.errors import SchedulerError, WaitExpired
from hpc_board.harness.build.toolchain import header_text
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import Mode
from hpc_board.report.plain import plain
from hpc_board.report.tasks import gpus_table
from hpc_board.tui.local_files import sent_as
from hpc_board.tui.preferences import Memory
from tests.unit.recorded import (
    AT,
    KERNEL,
    REFERENCE,
    REPOSITORY,
    SETTINGS,
    Recorded,
    call,
    full_device,
    read,
    result_of,
    status_of,
    timed_case,
)
from tests.waiting import awaited

EVIL = "\x1b]0;owned\x07\x1b[31mred"


# Usage


@pytest.mark.parametrize("module", ["click", "hpc_board.cli.runs"])
def test_an_interrupt_while_the_program_is_loaded_is_silent(board: Recorded, module: str) -> None:
    # Python imports `sitecustomize` first: here it interrupts the process at the moment when `module` is looked for.
    (board.folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt)\n"
    )
    done = board.hpc_board("runs", PYTHONPATH=f"{board.folder}:{REPOSITORY}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "argv",
    [
        "runs --task ?",
        "feed --user ?",
        "history vectoradd_py --user ?",
        "update ? --history",
        "admin log --user ?",
        "admin log --board ?",
        "admin stats --task ?",
        "admin export csv --task ?",
        "admin ban ? --reason x",
        "note 1 ?",
    ],
)
def test_words_that_are_not_utf_8_are_a_usage_error(board: Recorded, argv: str) -> None:
    board.board.settings.board.mkdir()
    done = board.hpc_board(*(word.replace("?", "\udcff") for word in argv.split()))
    assert (done.returncode, "'·' is not UTF-8 text." in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("argv", ["create ?", "create x ?", "update x ?", "task check ?", "admin export csv -o ?/x"])
def test_paths_that_are_not_utf_8_are_looked_for(board: Recorded, argv: str) -> None:
    done = board.hpc_board(*(word.replace("?", "\udcff") for word in argv.split()))
    assert "Traceback" not in done.stderr
    assert (done.returncode, "UTF-8" in done.stderr) == (2, False), done.stderr


def test_the_command_reference_is_what_the_commands_say() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "commands_page.py"))
    written = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == page["commands_page"](), "make docs writes it anew"


def test_without_a_terminal_the_bare_command_prints_its_help(board: Recorded) -> None:
    done = board.hpc_board()
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: hpc-board")


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "9" * 23),
        ("watch", "9" * 23),
        ("cancel", "1", "9" * 23),
        ("code", "9" * 23),
        ("runs", "--limit", "9" * 23),
        ("submit", "kernel.py", "--wait", "--timeout", "nan"),
        ("submit", "kernel.py", "--wait", "--timeout", "inf"),
        ("watch", "1", "--timeout", "inf"),
    ],
)
def test_impossible_numbers_are_usage_errors(board: Recorded, argv: tuple[str, ...]) -> None:
    done = call(board, *argv)
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


def test_help_is_a_command_too() -> None:
    run = CliRunner().invoke
    assert run(cli, ["help"], prog_name="hpc-board").stdout == run(cli, ["--help"], prog_name="hpc-board").stdout
    for name in cli.commands:
        asked = run(cli, [name, "--help"], prog_name="hpc-board").stdout
        assert run(cli, ["help", name], prog_name="hpc-board").stdout == asked
    nested = run(cli, ["task", "check", "--help"], prog_name="hpc-board").stdout
    assert run(cli, ["help", "task", "check"], prog_name="hpc-board").stdout == nested
    assert "`hpc-board submit` has no subcommands" in run(cli, ["help", "submit", "x"], prog_name="hpc-board").stderr


def test_completion_of_a_shell_that_is_not_known_says_which_are() -> None:
    done = CliRunner().invoke(cli, ["completion"], env={"SHELL": "/bin/tcsh"})
    assert done.exit_code == 2
    assert "bash, zsh, fish" in done.stderr


def completed(board: Recorded, words: str) -> str:
    """Return what a shell offers for the last of these words."""
    place = str(len(words.split(" ")) - 1)
    done = subprocess.run(
        [sys.executable, "-c", "from hpc_board.cli.main import main; main()"],
        env=board.environ(_HPC_BOARD_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=place),
        cwd=board.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def test_task_and_gpu_names_are_completed(board: Recorded) -> None:
    assert "vectoradd_py" in completed(board, "hpc-board show vec")
    assert "narrow" in completed(board, "hpc-board show --own na")
    assert "H100" in completed(board, "hpc-board submit kernel.py --gpu h")


def test_a_run_is_compared_with_others_of_its_task(board: Recorded) -> None:
    first, second = board.add(), board.add()
    elsewhere = board.add(task="narrow")
    assert completed(board, f"hpc-board compare {first.id} ").split() == [f"plain,{second.id}"]
    assert f"plain,{elsewhere.id}" in completed(board, "hpc-board compare ")


# Tasks and GPUs


def test_a_task_with_faults_is_named_on_stderr_and_hides_no_other(board: Recorded) -> None:
    broken = board.folder / "tasks" / "broken"
    broken.mkdir()
    (broken / "task.yml").write_text("lang: py\n")
    done = call(board, "list", "--json")
    assert done.exit_code == 0
    assert "broken" in done.stderr
    assert "narrow" in {task["name"] for task in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("scheduler", "python", "words"),
    [
        ("local", "/nowhere/bin/python", "gpus.CPU.python is not a program: /nowhere/bin/python"),
        ("slurm", "/nowhere/bin/python", "gpus.CPU.python does not exist on this machine"),
        ("local", sys.executable, ""),
        ("slurm", "python3", ""),
    ],
)
def test_a_python_that_is_not_there_is_told_with_its_gpu(
    board: Recorded, scheduler: str, python: str, words: str
) -> None:
    partition = ", partition: cpu" if scheduler == "slurm" else ""
    board.settings.write_text(
        f"board: board\nclusters:\n  here: {{scheduler: {scheduler}}}\n"
        f"gpus:\n  CPU: {{cluster: here, python: {python}{partition}}}\n"
    )
    (gpu,) = Board.open(board.settings).gpus.statuses()
    assert gpu.warning.startswith(words)
    assert bool(gpu.warning) is bool(words)
    assert gpu.warning in plain([gpus_table([gpu], AT)])


@pytest.mark.files_alone("a service keeps the texts of a task's files")
def test_a_task_shows_its_cases_and_prints_its_files(board: Recorded) -> None:
    assert "size: 127; seed: 4242" in call(board, "task", "vectoradd_py").stdout
    assert call(board, "task", "narrow", "--file", "reference.py").stdout == REFERENCE
    details = read(board, "task", "narrow")
    assert isinstance(details, dict)
    assert details["files"] == ["submission.py", "reference.py"]


@pytest.mark.parametrize(("task", "gpu"), [("vectoradd_py", " --gpu CPU"), ("narrow", "")])
def test_the_printed_test_of_a_template_names_a_gpu_where_the_task_has_several(
    board: Recorded, task: str, gpu: str
) -> None:
    own = board.folder / "tasks" / "narrow"
    (own / "task.yml").write_text((own / "task.yml").read_text() + "templates: {Python: start.py}\n")
    (own / "start.py").write_text("import torch\n")
    start = board.folder / "mine.py"
    done = call(board, "template", task, "--language", "python", "-o", start)
    _, _, command = done.stderr.strip().partition("Test it: hpc-board ")
    assert command == f"submit {start} --mode test{gpu} --wait"
    if task == "narrow":
        return  # It has no tests to run.
    tried = call(board, *command.removesuffix("--wait").split(), "--dry-run")
    assert tried.exit_code == 0, tried.stderr


def test_a_template_without_a_directive_gets_one(board: Recorded) -> None:
    own = board.folder / "tasks" / "narrow"
    (own / "task.yml").write_text((own / "task.yml").read_text() + "templates: {Python: start.py}\n")
    (own / "start.py").write_text("import torch\n")
    printed = call(board, "template", "narrow").stdout
    assert printed.startswith("#!POPCORN leaderboard narrow\n#!POPCORN gpus H100\n#\n")
    assert printed.endswith("\n\nimport torch\n")


def test_a_template_is_chosen_by_its_name_or_by_its_language_and_bears_a_comment_of_its_own(board: Recorded) -> None:
    for language, ending, first in (
        ("C++", "cpp", "//!POPCORN leaderboard matmul"),
        ("cpp", "cpp", "//!POPCORN leaderboard matmul"),
        ("cu", "cu", "//!POPCORN leaderboard matmul"),
        ("hip", "hip", "//!POPCORN leaderboard matmul"),
        ("py", "py", "#!POPCORN leaderboard matmul"),
        ("triton", "py", "#!POPCORN leaderboard matmul"),
    ):
        target = board.folder / f"{language}.{ending}"
        assert call(board, "template", "matmul", "--language", language, "-o", target).exit_code == 0
        assert target.read_text().splitlines()[0] == first
    assert call(board, "submit", board.folder / "cpp.cpp", "--gpu", "CPU", "--dry-run").exit_code == 0
    refused = call(board, "template", "matmul")
    assert "several templates: Python, Triton, C++, CUDA, cuBLAS, CUTLASS, ThunderKittens, HIP" in refused.stderr
    unclear = call(board, "template", "matmul", "-o", board.folder / "mine.txt")
    assert "several templates: Python, Triton, C++, CUDA, cuBLAS, CUTLASS, ThunderKittens, HIP" in unclear.stderr
    for written, name in (("pytorch", "Python"), ("thunder-kittens", "ThunderKittens"), ("CUBLAS", "cuBLAS")):
        shown = call(board, "template", "matmul", "--language", written).stdout
        assert shown == call(board, "template", "matmul", "--language", name).stdout
    elsewhere = call(board, "template", "matmul", "--language", "cute dsl")
    assert "task matmul has no template for CuteDSL." in elsewhere.stderr
    assert "It has: Python, Triton, C++" in elsewhere.stderr
    other = call(board, "template", "matmul", "--language", "triton", "-o", board.folder / "mine.cu")
    assert (other.exit_code, (board.folder / "mine.cu").exists()) == (2, False)
    assert "the extension of mine.cu does not match the language Triton." in other.stderr
    unknown = call(board, "template", "matmul", "--language", "Gloun")
    assert 'unknown language Gloun. Did you mean "Gluon"?' in unknown.stderr
    for ending, language in (("py", "Python"), ("cpp", "C++"), ("cu", "CUDA"), ("hip", "HIP")):
        target = board.folder / f"mine.{ending}"
        assert call(board, "template", "matmul", "-o", target).exit_code == 0
        assert target.read_text() == call(board, "template", "matmul", "--language", language).stdout


@pytest.mark.parametrize(
    ("gpu", "line", "told"),
    [
        ("L4: {cluster: here, device: cuda}", "A second line `//!POPCORN gpus L4` sends it", "--mode test --gpu L4 --"),
        ("MI300: {cluster: here, device: hip}", "matmul has no GPU on this board that runs CUDA, only CPU, MI300.", ""),
    ],
)
def test_a_template_names_the_gpus_that_run_its_language_or_says_that_there_are_none(
    board: Recorded, gpu: str, line: str, told: str
) -> None:
    board.settings.write_text(SETTINGS.replace("H100: {cluster: here, device: cpu}", gpu))
    target = board.folder / "mine.cu"
    done = call(board, "template", "matmul", "-o", target)
    assert done.exit_code == 0, done.stderr
    assert f"// {line}" in target.read_text()
    assert (told or line) in done.stderr
    assert ("Test it:" in done.stderr) == bool(told)


@pytest.mark.parametrize("command", ["show", "history"])
def test_standings_of_a_task_without_a_gpu_here_say_so(board: Recorded, command: str) -> None:
    board.settings.write_text(SETTINGS.replace("H100: {cluster: here, device: cpu}", ""))
    done = call(board, command, "narrow")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "narrow has no GPU here: it may run on H100." in done.stderr


def test_the_header_for_compiled_submissions_is_printed_as_the_compiler_gets_it(board: Recorded) -> None:
    assert call(board, "template", "matmul", "--header").stdout == header_text()
    both = call(board, "template", "matmul", "--header", "--language", "cpp")
    assert (both.exit_code, both.stdout) == (2, "")


def test_a_file_that_is_there_is_overwritten_only_by_force(board: Recorded) -> None:
    target = board.folder / "mine.py"
    target.write_text("precious")
    refused = call(board, "template", "vectoradd_py", "-o", target)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert target.read_text() == "precious"
    assert call(board, "template", "vectoradd_py", "-o", target, "--force").exit_code == 0
    assert target.read_text().startswith("#!POPCORN leaderboard vectoradd_py")
    assert sorted(path.name for path in board.folder.glob(".mine*")) == []


# Submitting


def test_a_dry_run_for_one_gpu_prints_the_script_alone_and_stores_nothing(board: Recorded) -> None:
    done = call(board, "submit", board.kernel, "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.startswith("#!/bin/bash\n")
    assert "CPU: bash" in done.stderr
    (preview,) = json.loads(call(board, "submit", board.kernel, "--dry-run", "--json").stdout)
    assert preview["script"] == done.stdout
    assert (preview["gpu"], preview["command"][0]) == ("CPU", "bash")
    assert not (board.folder / "board" / "runs").exists()
    assert board.services or not (board.folder / "board").exists()


def test_a_dry_run_for_several_gpus_separates_the_scripts(board: Recorded) -> None:
    board.kernel.write_text(KERNEL.replace("#!POPCORN gpu CPU\n", ""))
    done = call(board, "submit", board.kernel, "--gpu", "cpu,H100", "--dry-run")
    assert [line for line in done.stdout.splitlines() if line.startswith("# ----")] == [
        "# ---- GPU CPU ----",
        "# ---- GPU H100 ----",
    ]
    assert done.stdout.count("#!/bin/bash") == 2


def test_several_files_are_submissions_of_their_own_in_the_order_in_which_they_are_named(board: Recorded) -> None:
    others = [board.folder / f"k{number}.py" for number in range(3)]
    for other in others:
        other.write_text(KERNEL)
    sent = json.loads(call(board, "submit", *others, "--json").stdout)
    assert [run["file_name"] for each in sent for run in each["runs"]] == ["k0.py", "k1.py", "k2.py"]
    assert [each["submission"] for each in sent] == [1, 2, 3]
    (again,) = json.loads(call(board, "submit", *others, "--if-new", "--fields", "submission,reused,runs.id").stdout)
    assert again == {"submission": again["submission"], "reused": True, "runs": [{"id": again["submission"]}]}
    call(board, "submit", *others, "--array")
    assert [run.array for run in board.board.runs.list()] == [""] * 6, "this machine's own queue has no arrays"
    for run in board.board.runs.list():
        call(board, "cancel", str(run.id))


def test_the_app_finds_the_files_that_the_command_has_submitted(board: Recorded) -> None:
    other = board.folder / "other.py"
    other.write_text(f"{KERNEL}# other\n")
    state = board.folder / "state" / "hpc-board" / "app.json"
    assert call(board, "submit", board.kernel, "--dry-run").exit_code == 0
    assert not state.exists()
    assert call(board, "submit", other, board.kernel).exit_code == 0
    memory = Memory(state)
    sent = {run.file_name: sent_as(memory, board.door.address, run.code_sha256) for run in board.board.runs.list()}
    assert sent == {"other.py": (other,), "kernel.py": (board.kernel,)}
    for run in board.board.runs.list():
        call(board, "cancel", str(run.id))


def test_nothing_is_stored_where_one_of_several_files_cannot_be_submitted(board: Recorded) -> None:
    done = call(board, "submit", board.kernel, board.folder / "absent.py")
    assert done.exit_code == 2
    assert "absent.py" in done.stderr
    assert board.board.runs.list() == ()


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "binary": (lambda path: path.write_bytes(b"\x7fELF\0"), "NUL byte"),
    "not UTF-8": (lambda path: path.write_bytes(b"x = '\xff'\n"), "UTF-8"),
    "too large": (lambda path: path.write_text("#" * 1_000_001), "too large"),
    "a bare directive": (lambda path: path.write_text("#!POPCORN\n"), "missing its keyword"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_submitted_says_why_in_one_line_and_what_to_do(board: Recorded, kind: str) -> None:
    spoil, words = BAD_FILES[kind]
    spoil(board.kernel)
    done = call(board, "submit", board.kernel, "--gpu", "CPU")
    assert done.exit_code == 2
    assert words in done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]
    assert not done.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--gpu", "H100"), "the file's header names CPU, not H100."),
        (("--note", "two\nlines"), "line break"),
        (("--kernel", "softmax"), "--kernel is an option of mode profile, not of mode test."),
        (
            ("--mode", "ranked", "--case", "1"),
            "--case is an option of mode test, benchmark, profile, not of mode ranked.",
        ),
        (("--mode", "profile", "--case", "99"), "--case 99: expected 1 to "),
        (("--mode", "profile", "--set", "ful"), 'Did you mean "full"?'),
        (("--mode", "profile", "--kernel", "("), 'invalid regular expression "("'),
        (("--mode", "profile", "--tool", "memcheck"), "--tool is an option of mode sanitize, not of mode profile."),
        (("--mode", "sanitize", "--tool", "memchek"), 'unknown tool "memchek". Did you mean "memcheck"?'),
        (("--mode", "sanitize"), "CPU: mode sanitize has no tool for py submissions on the device cpu."),
    ],
)
def test_an_option_that_cannot_be_used_says_why(board: Recorded, argv: tuple[str, ...], words: str) -> None:
    done = call(board, "submit", board.kernel, *argv)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_gpu_on_which_the_task_may_not_run_is_refused_with_those_that_it_may(board: Recorded) -> None:
    board.kernel.write_text("x = 1\n")
    done = call(board, "submit", board.kernel, "--task", "narrow", "--gpu", "CPU")
    assert done.exit_code == 2
    assert "Choose one of: H100." in done.stderr


def test_a_deadline_that_has_passed_is_a_refusal(board: Recorded) -> None:
    task = board.folder / "tasks" / "narrow" / "task.yml"
    task.write_text(task.read_text() + "hpc_board: {deadline: 2020-01-01}\n")
    board.kernel.write_text("x = 1\n")
    settings = board.board.settings
    settings.board.mkdir()
    words = ["submit", str(board.kernel), "--task", "narrow"]
    done = CliRunner().invoke(cli, words, obj=lambda: Board(settings, user="not-the-owner"))
    assert done.exit_code == 5
    assert "deadline" in done.stderr


def test_list_marks_the_task_to_start_with(board: Recorded) -> None:
    task = board.folder / "tasks" / "narrow" / "task.yml"
    task.write_text(f"{task.read_text()}hpc_board: {{start_here: true}}\n")
    marked = [line.split()[0] for line in call(board, "list").stdout.splitlines() if "start here: " in line]
    assert "narrow" in marked
    assert [each["name"] for each in json.loads(call(board, "list", "--json").stdout) if each["start_here"]] == marked


@pytest.mark.files_alone("the settings are the service's")
def test_a_wrong_key_in_the_settings_names_file_line_key_and_the_nearest_right_one(board: Recorded) -> None:
    board.settings.write_text(board.settings.read_text().replace("tasks:", "taks:"))
    done = board.hpc_board("list")
    assert done.returncode == 2
    assert str(board.settings) in done.stderr
    assert "line 2: taks" in done.stderr
    assert "tasks" in done.stderr
    assert "Traceback" not in done.stderr


def test_slurm_that_is_not_installed_is_said_and_nothing_waits_for_it(board: Recorded) -> None:
    settings = (
        board.settings.read_text().replace("local", "slurm").replace("cluster: here", "cluster: here, partition: p")
    )
    board.settings.write_text(settings)
    bin_ = board.folder / "bin"
    bin_.mkdir()
    done = board.hpc_board("submit", "kernel.py", PATH=str(bin_))
    assert done.returncode == 2
    assert "sbatch" in done.stderr
    assert "Traceback" not in done.stderr
    (run,) = json.loads(board.hpc_board("runs", "--json", PATH=str(bin_)).stdout)
    assert run["state"] == "error"
    assert "sbatch" in run["reason"]


SLURM_OPTIONS = """\
board: board
tasks: [tasks, bundled]
clusters: {main: {scheduler: slurm}, here: {scheduler: local}}
gpus:
  CPU: {cluster: main, partition: p, account: site, qos: site, time: "20"}
  near: {cluster: here, device: cpu}
"""
HOSTILE = {"SBATCH_ACCOUNT": "variable", "SBATCH_PARTITION": "variable", "SBATCH_QOS": "$(id)"}
MAY = "submit: {options: [account, qos, time, sbatch]}\n"


def previewed(board: Recorded, *argv: str, **environ: str) -> list[str]:
    done = board.hpc_board(
        "submit", "plain.py", "--task", "vectoradd_py", "--gpu", "CPU", "--dry-run", *argv, **environ
    )
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("#SBATCH --") for line in done.stdout.splitlines() if line.startswith("#SBATCH")]


@pytest.fixture
def slurm_options(board: Recorded) -> Recorded:
    """A board on Slurm with values of its own, and a file without a header."""
    board.settings.write_text(SLURM_OPTIONS + MAY)
    (board.folder / "plain.py").write_text("def custom_kernel(data):\n    return data\n")
    return board


def test_options_come_from_the_settings_the_header_and_the_command(slurm_options: Recorded) -> None:
    board = slurm_options
    found = previewed(board, **HOSTILE)
    assert {"partition=p", "account=site", "qos=site", "time=00:20:00"} <= set(found)
    header = "#!HPCBOARD account header\n#!HPCBOARD qos header\n#!HPCBOARD sbatch --contiguous\n"
    (board.folder / "plain.py").write_text(header)
    found = previewed(board, "--qos", "command", "--time=00:05:00", "--sbatch=--comment=command", **HOSTILE)
    wanted = {"account=header", "qos=command", "time=00:05:00", "comment=command", "contiguous"}
    assert wanted <= set(found)
    assert not any("variable" in line for line in found)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("--reservation=r",), 5, "--reservation in the command is not permitted on this board: `submit.options`"),
        (
            ("--time=00:20:01",),
            5,
            "is longer than 0:20:00, the time limit of jobs on CPU in mode test, set by gpus.CPU.time",
        ),
        (("--time=never",), 2, "--time: expected a time up to a year"),
        (("--account=a b",), 2, '--account: expected a name of letters, digits and _ . @ + -, found "a b"'),
        (("--sbatch=--uid=root",), 2, "--sbatch: --uid is not supported"),
        (("--qos=",), 2, "--qos needs a value."),
        (("--gpu", "near", "--account=a"), 2, "cluster here (scheduler local) does not support --account"),
    ],
)
def test_an_option_of_the_job_that_cannot_be_used_says_why(
    slurm_options: Recorded, argv: tuple[str, ...], code: int, words: str
) -> None:
    done = slurm_options.hpc_board(
        "submit", "plain.py", "--task=vectoradd_py", "--gpu=CPU", *argv, "--dry-run", COLUMNS="500"
    )
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_without_the_setting_a_service_permits_a_shorter_time_alone(slurm_options: Recorded) -> None:
    board = slurm_options
    board.settings.write_text(SLURM_OPTIONS)
    assert "time=00:05:00" in previewed(board, "--time=5")
    done = board.hpc_board("submit", "plain.py", "--task=vectoradd_py", "--gpu=CPU", "--qos=q", "--dry-run")
    if board.services is None:
        assert done.returncode == 0, done.stderr
    else:
        assert (done.returncode, "permits time." in done.stderr) == (5, True), done.stderr
    assert previewed(board, "--mode=profile", "--case=1")
    done = board.hpc_board("submit", "plain.py", "--task=vectoradd_py", "--gpu=CPU", "--mode=profile", "--set=basic")
    assert done.returncode == 2
    assert "--set is an option of Nsight Compute, which profiles on the device cuda, not on CPU." in done.stderr


def test_the_choices_of_a_profile_are_kept_with_the_run_and_sent_again_in_its_mode(slurm_options: Recorded) -> None:
    board = slurm_options
    bin_ = board.folder / "bin"
    bin_.mkdir()
    argv = ("submit", "plain.py", "--task=vectoradd_py", "--gpu=CPU", "--mode=profile", "--case=1")
    assert board.hpc_board(*argv, PATH=str(bin_)).returncode == 2  # without sbatch
    (run,) = json.loads(board.hpc_board("runs", "--json").stdout)
    assert run["options"]["case"] == "1"
    assert "--case=1" in board.hpc_board("run", "1", COLUMNS="200").stdout
    with board.door.session():
        assert board.door.submissions.again(1).options.choices == {"case": "1"}
        assert board.door.submissions.again(1, mode="ranked").options.choices == {}


def test_a_run_shows_its_options_and_is_sent_again_with_them(slurm_options: Recorded) -> None:
    board = slurm_options
    bin_ = board.folder / "bin"
    bin_.mkdir()
    options = ("--account=own", "--qos=night", "--sbatch=--comment=own", "--sbatch=--contiguous")
    argv = ("submit", "plain.py", "--task=vectoradd_py", "--gpu=CPU", *options)
    assert board.hpc_board(*argv, PATH=str(bin_)).returncode == 2  # without sbatch
    (run,) = json.loads(board.hpc_board("runs", "--json").stdout)
    assert run["options"] == {"account": "own", "qos": "night", "sbatch": ["--comment=own", "--contiguous"]}
    assert "--account=own --qos=night --sbatch=--comment=own" in board.hpc_board("run", "1", COLUMNS="200").stdout
    door = board.door
    with door.session():
        again = door.submissions.again(1)
        assert again.options.account == "own"
        assert "#SBATCH --qos=night\n" in door.submissions.preview([again])[0].script


UNREACHABLE = "Unable to contact slurm controller (connect failure)"


def slurm_programs(board: Recorded, **scripts: str) -> dict[str, str]:
    """The environment in which each of Slurm's commands is this shell script, on a board whose cluster is Slurm."""
    settings = board.settings.read_text().replace("{scheduler: local}", "{scheduler: slurm, poll_seconds: 1}")
    board.settings.write_text(settings.replace("cluster: here", "cluster: here, partition: p"))
    folder = board.folder / "bin"
    folder.mkdir()
    for name, script in scripts.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def unreachable_slurm(board: Recorded) -> dict[str, str]:
    return slurm_programs(
        board,
        sbatch=f"echo 'sbatch: error: Batch job submission failed: {UNREACHABLE}' >&2; exit 1",
        squeue=f"echo x >>{board.folder}/asked; echo 'slurm_load_jobs error: {UNREACHABLE}' $$ >&2; exit 1",
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_submission_that_slurm_does_not_answer_is_kept_and_says_why_and_what_to_do(
    board: Recorded, options: tuple[str, ...]
) -> None:
    done = board.hpc_board("submit", "kernel.py", *options, **unreachable_slurm(board))
    assert done.returncode == 0
    what, next_ = done.stderr.splitlines()
    assert what.startswith("Run 1 on CPU is not queued yet: ")
    assert UNREACHABLE in what
    assert next_.startswith(f"Stored; {senders(board)} will send it. ")
    assert "`hpc-board cancel 1`" in next_
    if options:
        (run,) = json.loads(done.stdout)["runs"]
        assert (run["state"], run["reason"]) == ("submitting", "the scheduler has not confirmed the job")


def senders(board: Recorded) -> str:
    """The names of those who send run 1, in messages."""
    return "the service" if board.services else "`hpc-board watch 1`, `hpc-board poll` or the app"


@pytest.mark.parametrize("command", [("submit", "kernel.py", "--wait"), ("watch", "1")])
def test_waiting_for_a_run_that_slurm_does_not_answer_says_so_once_and_again_at_the_end(
    board: Recorded, command: tuple[str, ...]
) -> None:
    environ = unreachable_slurm(board)
    if command[0] == "watch":
        board.hpc_board("submit", "kernel.py", **environ)
    process = subprocess.Popen(
        [sys.executable, "-m", "hpc_board", *command],
        cwd=board.folder,
        env=board.environ(**environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "Still waiting" in line)
        # When squeue is asked for the second time from here on, its first answer has replaced the reason.
        asked = board.folder / "asked"
        before = lines_of(asked)
        awaited(lambda: lines_of(asked) >= before + 2)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert told.startswith("Still waiting: Run 1 on CPU is not queued yet: ")
    assert process.returncode == 130
    assert (told.count(UNREACHABLE), rest.count(UNREACHABLE)) == (1, 1)
    assert "Still waiting" not in rest
    assert f"Stored; {senders(board)} will send it" in rest


def lines_of(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.files_alone("the warning goes into the service's log")
def test_pyslurm_that_does_not_work_is_told_once_and_slurm_is_asked_by_its_commands(board: Recorded) -> None:
    asked = board.folder / "asked"
    environ = slurm_programs(
        board,
        sbatch="echo 104",
        squeue=f"echo x >> {asked}; echo 'JOBID|NAME'",
        sacct="echo 'JobID|JobName'",
        python="""echo '{"error": "ModuleNotFoundError: No module named pyslurm"}'""",
    )
    python = board.folder / "bin" / "python"
    slurm = f"{{scheduler: slurm, client: pyslurm, pyslurm_python: {python}, "
    board.settings.write_text(board.settings.read_text().replace("{scheduler: slurm, ", slurm))
    done = board.hpc_board("submit", "kernel.py", "--wait", "--timeout", "4", **environ)
    assert done.returncode == 4
    warning = f"warning: hpc-board uses Slurm's commands for cluster here because pyslurm under {python} failed: "
    assert done.stderr.count("warning: ") == done.stderr.count(warning) == 1
    assert "No module named pyslurm" in done.stderr
    assert asked.read_text().count("x") > 1


def test_a_queue_that_cannot_be_asked_is_told_once(board: Recorded) -> None:
    asked = board.folder / "asked"
    environ = slurm_programs(board, sbatch="echo 104", squeue=f"echo x >> {asked}; echo '{UNREACHABLE}' >&2; exit 1")
    assert board.hpc_board("submit", "kernel.py", **environ).stderr.startswith("`hpc-board watch 1`")
    done = board.hpc_board("watch", "1", "--timeout", "4", **environ)
    assert done.returncode == 4
    assert len(asked.read_text().split()) > 1
    assert done.stderr.count(silence(board)) == 1


def silence(board: Recorded) -> str:
    """The beginning of the message that the queue cannot be asked; a service's log has the scheduler's words."""
    return "Still waiting: the scheduler of cluster here has not" if board.services else "Still waiting: squeue failed"


def test_a_wait_for_a_run_that_will_never_start_says_why_once_and_what_to_do(board: Recorded) -> None:
    row = "104|$NAME|PENDING|1795230906|N/A||0|PartitionConfig|/|"
    sbatch = f"for each; do case $each in --job-name=*) echo ${{each#*=}} > {board.folder}/name;; esac; done; echo 104"
    squeue = f'NAME=$(cat {board.folder}/name); echo "JOBID|NAME"; echo "{row}"'
    environ = slurm_programs(board, sbatch=sbatch, squeue=squeue)
    done = board.hpc_board("submit", "kernel.py", "--wait", "--timeout", "5", **environ)
    assert done.returncode == 4, done.stderr
    why = "Run 1 on CPU will never start: no node of the partition has the requested resources"
    assert done.stderr.count(f"Still waiting: {why}") == 1
    assert "`cpus_per_task`" in done.stderr
    assert "Timed out: not finished after 5 s: run 1" in done.stderr


def count_still_waiting(board: Recorded, seconds: int, environ: dict[str, str]) -> int:
    """Count the messages of `watch 1` within this time that the queue cannot be asked."""
    done = board.hpc_board("watch", "1", "--timeout", str(seconds), **environ)
    assert done.returncode == 4, done.stderr
    return done.stderr.count(silence(board))


def hindered(board: Recorded) -> Recorded:
    """Return the board with a run that cannot be sent: a file is in the way of all job folders."""
    (board.folder / "board").mkdir(exist_ok=True)
    (board.folder / "board" / "runs").write_text("in the way")
    done = board.hpc_board("submit", "kernel.py")
    assert done.returncode == 2
    assert "The submission is stored (run " in done.stderr
    return board


@pytest.mark.files_alone("the service advances runs, not the command")
def test_a_run_that_cannot_be_sent_says_why_wherever_it_is_followed(board: Recorded) -> None:
    hindered(board)
    why = "the harness cannot be written"
    watched = board.hpc_board("watch", "1", "--timeout", "1")
    assert watched.returncode == 4
    assert (watched.stderr.count("Still waiting: "), watched.stderr.count(why)) == (1, 2)
    assert "Stored; `hpc-board watch 1`, `hpc-board poll` or the app will send it" in watched.stderr
    assert "scheduler" not in watched.stderr
    assert "go on" not in watched.stderr
    polled = board.hpc_board("poll")
    assert polled.returncode == 3
    assert why in polled.stderr
    assert f"Not up to date: The board cannot be written: {board.folder}" in board.hpc_board("runs").stderr


@pytest.mark.files_alone("a service holds the database")
def test_a_board_that_cannot_be_read_is_one_error(board: Recorded) -> None:
    (board.folder / "board").mkdir(exist_ok=True)
    (board.folder / "board" / "board.db").write_bytes(b"no database" * 1000)
    done = board.hpc_board("runs")
    assert (done.returncode, "Not up to date" in done.stderr) == (2, False)
    assert done.stderr.count("The board cannot be read: ") == 1


@pytest.mark.files_alone("the service advances runs, not the command")
def test_poll_says_what_changed_though_something_could_not_be_carried_on(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED))
    hindered(board)
    done = board.hpc_board("poll")
    assert done.stdout == "run 1 on CPU: queued -> collecting\n"
    assert done.returncode == 3


def test_a_submission_beside_a_client_that_is_busy_is_said_to_be_sent_by_the_next_one(board: Recorded) -> None:
    (board.folder / "board").mkdir()
    with (board.folder / "board" / "advance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = board.hpc_board("submit", "kernel.py")
    assert done.returncode == 0
    assert f"Stored; {senders(board)} will send it" in done.stderr
    assert "scheduler" not in done.stderr


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["read alone", "closed"])
@pytest.mark.files_alone("the board's folder is the service's")
def test_a_board_that_may_not_be_written_is_an_input_error(board: Recorded, mode: int) -> None:
    (board.folder / "board").mkdir(mode=mode)
    for path in (board.folder, *board.folder.parents[:3]):
        path.chmod(0o755)
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-m", "hpc_board", "submit", "kernel.py"],
        cwd=board.folder,
        env=board.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert str(board.folder / "board") in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


# Runs and standings


def test_the_log_of_a_job_is_printed_alone(board: Recorded) -> None:
    run = board.add(status_of(RunState.RUNNING), status_of(RunState.CANCELLED))
    folder = board.folder / "board" / "runs" / str(run.id)
    folder.mkdir(parents=True)
    (folder / "slurm-104.out").write_text("what the job printed\n")
    assert call(board, "run", "1", "--log").stdout == "what the job printed\n"


def test_runs_whose_folders_were_removed_are_shown_from_what_is_stored(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case(), stdout="hello\n"), score_s=12.34e-6)
    board.add(status_of(RunState.LOST, reason="gone"))
    board.add(status_of(RunState.RUNNING))
    assert not (board.folder / "board" / "runs").exists()
    passed, lost, running = (call(board, "run", number) for number in ("1", "2", "3"))
    assert [done.exit_code for done in (passed, lost, running)] == [0, 0, 0]
    assert "Passed: 1 benchmark. Rank 1 of 1 on CPU: 12.3 µs." in passed.stdout
    assert "Ended without a result: lost; gone" in lost.stdout
    assert "Run 3: " in running.stdout
    assert [call(board, "watch", number).exit_code for number in ("1", "2")] == [0, 3]
    assert call(board, "watch", "3", "--timeout", "0").exit_code == 4
    for number in ("1", "2", "3"):
        assert call(board, "run", number, "--log").exit_code == 0
        assert read(board, "run", number)


def test_the_code_of_a_submission_comes_back_byte_for_byte(board: Recorded) -> None:
    code = b"# \xc2\xb5 \r\nx = 1"
    board.add(code=code)
    assert call(board, "code", "1").stdout_bytes == code
    assert call(board, "code", "1", "-o", board.folder / "back.py").exit_code == 0
    assert (board.folder / "back.py").read_bytes() == code


def test_somebody_elses_code_is_refused(board: Recorded) -> None:
    board.add(user="somebody")
    participant = Board(board.board.settings, user="eve")
    assert CliRunner().invoke(cli, ["code", "1"], obj=lambda: participant).exit_code == 5


@pytest.mark.parametrize(
    ("verdict", "exit_code"),
    [
        (Verdict.PASS, 0),
        (Verdict.WRONG_VALUE, 1),
        (Verdict.COMPILE_ERROR, 1),
        (Verdict.TIMEOUT, 1),
        (Verdict.OUT_OF_MEMORY, 1),
        (Verdict.TASK_ERROR, 3),
        (Verdict.INFRA_ERROR, 3),
        (Verdict.DEVICE_ERROR, 3),
    ],
)
def test_the_exit_code_of_waiting_tells_the_kernels_faults_from_others(
    board: Recorded, verdict: Verdict, exit_code: int
) -> None:
    board.add(result=result_of(verdict))
    assert call(board, "watch", "1").exit_code == exit_code


@pytest.mark.parametrize("state", [state for state in RunState if state.ended and state is not RunState.FINISHED])
def test_a_run_that_ended_without_a_verdict_exits_with_3(board: Recorded, state: RunState) -> None:
    board.add(status_of(state))
    done = call(board, "watch", "1", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["state"] == state


def test_giving_up_waiting_exits_with_4_and_still_prints_what_is_known(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED))
    done = call(board, "watch", "1", "--timeout", "0", "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["id"] == 1
    assert "Timed out" in done.stderr


def test_an_interrupt_leaves_the_run_alone_and_says_how_to_come_back(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpc_board", "watch", "1"],
        cwd=board.folder,
        env=board.environ(TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    try:
        shown = _until(master, b"run 1  CPU")
        process.send_signal(signal.SIGINT)
        shown += _until(master, b"hpc-board cancel 1")
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
        os.close(master)
    assert b"Ctrl-C stops the wait; the runs continue." in shown
    assert b"hpc-board watch 1" in shown
    assert b"\x1b[?25h" in shown.rpartition(b"\x1b[?25l")[2], "the cursor is shown again"
    assert not board.board.runs.get(1).state.ended


def _until(descriptor: int, words: bytes) -> bytes:
    shown = b""
    deadline = time.monotonic() + 60
    while words not in shown:
        assert time.monotonic() < deadline, shown
        shown += os.read(descriptor, 4096)
    return shown


@pytest.mark.files_alone("a service sends a created run at once")
def test_cancelling_a_run_that_was_never_sent_ends_it_and_one_that_ended_stays(board: Recorded) -> None:
    board.add()
    board.add(status_of(RunState.LOST))
    done = call(board, "cancel", "99", "1", "2")
    assert "Run 1 cancelled." in done.stdout
    assert "Run 2 has already ended: lost." in done.stdout
    assert "no run 99" in done.stderr
    assert done.exit_code == 2
    assert board.board.runs.get(1).state is RunState.CANCELLED


@pytest.mark.slow
def test_json_has_all_rows_of_a_list_and_a_shorter_list_says_so(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_PART_ROWS", 7)
    passed = result_of(Verdict.PASS, timed_case(0))
    for number in range(52, 0, -1):
        board.add(result=passed, score_s=number * 1e-3)
    for words, default, order in (
        (("runs",), 50, [*range(52, 0, -1)]),
        (("runs", "--sort", "score"), 50, [*range(52, 0, -1)]),
        (("feed",), 20, None),
        (("admin", "log"), 50, None),
    ):
        for number in range(1, 53) if words[0] == "admin" else ():
            board.board.moderation.remove([number], "too fast")
        whole = json.loads((done := call(board, *words, "--json")).stdout)
        assert (len(whole), done.stderr) == (52, "")
        assert order is None or [run["id"] for run in whole] == order
        assert len({json.dumps(row) for row in whole}) == 52
        some = call(board, *words, "--limit", "8", "--json")
        assert json.loads(some.stdout) == whole[:8]
        assert some.stderr == "More than 8: `--limit N` lists N, `--limit all` all.\n"
        for limit in ("52", "all"):
            found = call(board, *words, "--limit", limit, "--json")
            assert (json.loads(found.stdout), found.stderr) == (whole, "")
        text = call(board, *words)
        assert text.stderr == f"More than {default}: `--limit N` lists N, `--limit all` all.\n"


@pytest.mark.parametrize(
    ("argv", "kind", "message", "hint", "exit_code"),
    [
        ("run 99 --json", "input", "there is no run 99", "`hpc-board runs` lists your runs.", 2),
        ("run --json", "usage", "Missing argument 'ID'.", "`hpc-board runs` lists your runs.", 2),
        ("runs --json --bogus", "usage", "No such option '--bogus'.", "", 2),
        ("cancel x --json", "usage", "Invalid value for 'ID...': 'x' is not a run number.", "", 2),
        ("note 1 text --json", "refused", "", "", 5),
    ],
)
def test_an_error_is_one_json_object_with_json_and_text_for_people(
    board: Recorded, argv: str, kind: str, message: str, hint: str, exit_code: int
) -> None:
    board.add(user="somebody")
    done = call(board, *argv.split())
    (key, told), *others = json.loads(done.stdout).items()
    assert (key, others) == ("error", [])
    assert (told["kind"], told["hint"] if hint else "", told["exit_code"], done.exit_code) == (
        kind,
        hint,
        exit_code,
        exit_code,
    )
    assert told["message"].startswith(message)
    assert done.stderr.startswith("error: ")
    text = call(board, *argv.replace("--json", "").split())
    assert (text.stdout, text.exit_code) == ("", exit_code)


def test_a_word_behind_the_end_of_options_asks_for_no_json(board: Recorded) -> None:
    assert call(board, "note", "99", "--", "--json").stdout == ""


@pytest.mark.files_alone("the wait is of this process")
def test_a_wait_that_expires_prints_the_run_as_its_only_json(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def expired(*_: object, **__: object) -> NoReturn:
        raise WaitExpired("not finished after 0 s")

    monkeypatch.setattr(Runs, "wait", expired)
    run = board.add(status_of(RunState.LOST))
    done = call(board, "watch", str(run.id), "--timeout", "0", "--json")
    assert (json.loads(done.stdout)["id"], done.exit_code) == (run.id, 4)


@pytest.mark.files_alone("the failing scheduler is in this process")
def test_one_reason_for_which_several_runs_are_not_cancelled_is_printed_once(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Cancellation(error=SchedulerError("scancel did not answer"))
    monkeypatch.setattr(Runs, "cancel_each", lambda _, runs: tuple(silent for _ in runs))
    for words in ((), ("--json",)):
        done = call(board, "cancel", "1", "2", "3", *words)
        assert done.stderr == "Not cancelled: 1, 2, 3.\nerror: The scheduler failed: scancel did not answer.\n"
        assert done.exit_code == 3
    (told,) = map(json.loads, done.stdout.splitlines())
    assert told["error"]["message"] == "scancel did not answer"


def test_somebody_elses_run_is_not_cancelled(board: Recorded) -> None:
    board.add(user="somebody")
    assert call(board, "cancel", "1").exit_code == 5
    # A service sends the run meanwhile.
    found = board.board.runs.get(1)
    assert found.state is not RunState.CANCELLED
    assert not found.status.cancel_requested


def test_a_result_that_cannot_be_read_hides_no_run_from_a_list(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=12.34e-6)
    board.add(status_of(RunState.CANCELLED))
    with closing(sqlite3.connect(board.folder / "board" / "board.db")) as db, db:
        db.execute("DELETE FROM documents")
        db.execute("INSERT INTO documents VALUES (1, '{}')")
    assert [len(run["cases"]) for run in json.loads(call(board, "runs", "--json").stdout)] == [0, 1]
    done = call(board, "run", "1", "--json")
    assert done.exit_code == 2
    assert "the database is damaged (result of run 1" in done.stderr


def test_commands_work_in_a_folder_that_was_deleted(board: Recorded) -> None:
    script = 'mkdir gone && cd gone && rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "hpc_board", "list", "--json"],
        cwd=board.folder,
        env=board.environ(HPC_BOARD_CONFIG=""),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "vectoradd_py" in {task["name"] for task in json.loads(done.stdout)}


# Streams


def test_hostile_text_reaches_no_terminal(board: Recorded) -> None:
    board.add(
        result=result_of(Verdict.CRASH, Case("test", 0, EVIL, Verdict.CRASH, EVIL), message=EVIL, stderr=EVIL),
        file_name=EVIL,
        mode=Mode.RANKED,
    )
    board.add(status_of(RunState.LOST, reason=EVIL, source=EVIL), file_name=EVIL)
    for argv in (("runs",), ("run", "1"), ("run", "2"), ("runs", "--json"), ("run", "1", "--json"), ("watch", "2")):
        done = call(board, *argv)
        assert "\x1b" not in done.output, argv
        assert "owned" not in done.output, argv
    done = call(board, "template", "vectoradd_py", "-o", board.folder / EVIL / "kernel.py")
    assert "cannot be written" in done.stderr
    assert "owned" not in done.stderr


def test_json_goes_to_stdout_and_nothing_else_does(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-6)
    for argv in (("list",), ("gpus",), ("runs",), ("run", "1"), ("show", "vectoradd_py"), ("watch", "1")):
        done = board.hpc_board(*argv, "--json")
        json.loads(done.stdout)
        assert done.stdout.isascii()
        assert done.stderr == ""


def test_output_into_a_pipe_has_no_colours_and_is_not_cut(board: Recorded) -> None:
    board.add(status_of(RunState.LOST), file_name="k" * 150 + ".py")
    done = board.hpc_board("runs", COLUMNS="80")
    assert "\x1b" not in done.stdout
    assert "k" * 150 in done.stdout


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_gets_colours_and_a_fitting_width_unless_it_wants_none(
    board: Recorded, environ: dict[str, str], coloured: bool
) -> None:
    board.add(status_of(RunState.LOST), file_name="k" * 150 + ".py")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpc_board", "runs"],
        cwd=board.folder,
        env=board.environ(**{"TERM": "xterm", "COLUMNS": "100", **environ}),
        stdout=slave,
        stderr=subprocess.PIPE,
    )
    os.close(slave)
    try:
        shown = _until(master, b" d")
        process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(master)
    assert (b"\x1b" in shown) is coloured
    assert b"k" * 100 not in shown


def test_a_reader_that_leaves_early_gets_no_traceback(board: Recorded) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [sys.executable, "-m", "hpc_board", "list"],
        cwd=board.folder,
        env=board.environ(),
        stdout=write_end,
        stderr=subprocess.PIPE,
    )
    os.close(write_end)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, b"")


def into_full_disk(
    board: Recorded, *argv: str, stdout: bool = True, stderr: bool = False
) -> subprocess.CompletedProcess[str]:
    """The command with an `stdout`, an `stderr` or both on which every write fails."""
    with full_device().open("w") as full:
        return subprocess.run(
            [sys.executable, "-m", "hpc_board", *argv],
            cwd=board.folder,
            env=board.environ(),
            stdout=full if stdout else subprocess.PIPE,
            stderr=full if stderr else subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("--version",),
        ("help", "submit"),
        ("list",),
        ("list", "--json"),
        ("task", "vectoradd_py"),
        ("template", "vectoradd_py"),
        ("submit", "kernel.py", "--dry-run"),
        ("runs",),
        ("run", "1"),
        ("run", "1", "--log"),
        ("watch", "1", "--json"),
        ("code", "1"),
        ("completion", "bash"),
    ],
)
def test_output_that_cannot_be_written_is_an_error_and_no_traceback(board: Recorded, argv: tuple[str, ...]) -> None:
    run = board.add(result=result_of(Verdict.PASS, timed_case(), stdout="hello\n" * 10_000))
    folder = board.folder / "board" / "runs" / str(run.id)
    folder.mkdir(parents=True)
    (folder / "slurm-104.out").write_text("what the job printed\n")
    done = into_full_disk(board, *argv)
    assert done.returncode == 3
    assert [line.partition(":")[0] for line in done.stderr.splitlines()[-2:]] == ["error", "hint"]
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "the output cannot be written: No space left on device" in done.stderr


def test_where_not_even_the_error_can_be_written_the_exit_code_tells(board: Recorded) -> None:
    assert into_full_disk(board, "list", stderr=True).returncode == 3


@pytest.mark.parametrize(
    ("argv", "exit_code"),
    [
        (("template", "vectoradd_py", "-o", "mine.py"), 0),
        (("submit", "kernel.py", "--dry-run"), 0),
        (("list",), 0),
        (("run", "99"), 2),
        (("no-such-command",), 2),
        (("watch", "1", "--timeout", "0"), 4),
    ],
)
def test_a_remark_that_cannot_be_written_changes_no_exit_code(
    board: Recorded, argv: tuple[str, ...], exit_code: int
) -> None:
    (board.folder / "tasks" / "broken").mkdir()
    (board.folder / "tasks" / "broken" / "task.yml").write_text("lang: py\n")
    board.add(status_of(RunState.QUEUED))
    assert into_full_disk(board, *argv, stdout=False, stderr=True).returncode == exit_code


def test_what_the_system_refuses_inside_is_a_bug_and_not_hidden() -> None:
    failure = OSError(errno.EIO, "Input/output error")

    def broken() -> NoReturn:
        raise failure

    done = CliRunner().invoke(cli, ["list"], obj=broken)
    assert done.exception is failure


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed_are_nobodys_wish_to_read(board: Recorded, closed: str) -> None:
    for argv in ("list", ""):
        done = subprocess.run(
            ["bash", "-c", f'"$@" {argv} {closed}', "bash", sys.executable, "-m", "hpc_board"],
            cwd=board.folder,
            env=board.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_locale_without_greek_letters_breaks_no_report(board: Recorded) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=12.34e-6)
    done = board.hpc_board("run", "1", PYTHONIOENCODING="iso8859-2")
    assert done.returncode == 0
    assert "Rank 1 of 1 on CPU: 12.3 ?s" in done.stdout


# Administration


def test_the_list_of_commands_has_the_names_and_words_of_the_commands() -> None:
    for name, entry in cli.commands.items():
        command = loaded(entry)
        assert (command.name, command.get_short_help_str(200)) == (name, entry.get_short_help_str(200))


# Conventions


@pytest.mark.files_alone("the settings of a service are its own")
def test_an_option_of_all_commands_is_taken_before_and_behind_the_command(board: Recorded) -> None:
    (board.folder / "other.yaml").write_text(SETTINGS.replace("board: board", "board: elsewhere"))
    for argv in (("--config", "other.yaml", "-v", "runs"), ("runs", "-v", "--config", "other.yaml")):
        assert f"board: {board.folder}/elsewhere" in board.hpc_board(*argv).stderr


def test_a_quiet_command_prints_no_remarks_and_its_errors(board: Recorded) -> None:
    run = board.add(result=result_of(Verdict.PASS), mode=Mode.TEST)
    assert call(board, "note", str(run.id), "a note").stderr
    assert call(board, "note", str(run.id), "a note", "-q").stderr == ""
    assert call(board, "-q", "run", "99").stderr.startswith("error: there is no run 99")


@pytest.mark.parametrize(
    ("argv", "environ", "coloured"),
    [
        (("--color", "always"), {}, True),
        ((), {"FORCE_COLOR": "1"}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ((), {}, False),
    ],
)
def test_colours_are_those_of_the_option_then_of_the_environment(
    board: Recorded, argv: tuple[str, ...], environ: dict[str, str], coloured: bool
) -> None:
    done = board.hpc_board("runs", *argv, **environ)
    assert ("\x1b[" in board.hpc_board("run", "x", *argv, **environ).stderr) is coloured
    assert "\x1b[" not in done.stdout, "there is no run whose outcome has a colour"


def test_the_commands_are_listed_in_groups_and_none_is_left_out(board: Recorded) -> None:
    listed = call(board, "--help").stdout
    for title in ("Submit and watch", "Results", "Tasks", "Boards", "Setup"):
        assert f"\n{title}:\n" in listed
    assert sorted(name for names in type(cli).sections.values() for name in names) == sorted(cli.commands)


def test_a_submission_comes_from_standard_input(board: Recorded) -> None:
    done = CliRunner().invoke(cli, ["submit", "-", "--dry-run"], obj=lambda: board.door, input=KERNEL)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(
        cli, ["submit", "-", "--name", "x.txt", "--dry-run"], obj=lambda: board.door, input=KERNEL
    )
    assert (done.exit_code, "x.txt: unsupported file type. Submit a Python" in done.stderr) == (2, True)
    assert call(board, "submit", "-", "kernel.py").exit_code == 2
    assert call(board, "submit", "kernel.py", "--name", "x.py").exit_code == 2


def test_the_status_has_the_runs_in_flight_and_each_ended_run_once(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(board.folder / "state"))
    monkeypatch.setattr("hpc_board.cli.status._FIRST_LOOK", timedelta(days=36_500))
    going = board.add(status_of(RunState.QUEUED))
    ended = board.add(result=result_of(Verdict.PASS), mode=Mode.TEST)
    first, second = read(board, "status"), read(board, "status")
    assert [each["id"] for each in first["in_flight"]] == [going.id]
    assert [each["id"] for each in first["ended"]] == [ended.id]
    assert second["ended"] == []
    (board.folder / "state" / "hpc-board" / "status.json").write_text("damaged")
    assert [each["id"] for each in read(board, "status")["ended"]] == [ended.id]


def test_sync_deadline_reaches_the_boards(board: Recorded) -> None:
    source = board.folder / "competition"
    shutil.copytree(board.folder / "tasks" / "narrow", source / "narrow")
    text = 'deadline: "2020-01-01"\nproblems:\n  - {directory: narrow, name: narrow_v2}\n'
    (source / "practice.yaml").write_text(text)
    done = call(board, "admin", "sync", source / "practice.yaml", "--deadline", "2090-01-02 3:04")
    assert done.exit_code == 0, done.output
    assert ", until 2090-01-02 03:04 UTC" in done.stdout
    (found,) = [each for each in read(board, "list") if each["name"] == "narrow_v2"]
    assert found["deadline"].startswith("2090-01-02T03:04")


@pytest.mark.files_alone("the tasks of a service are its own")
@pytest.mark.parametrize("command", [("task", "hostile", "--file", "reference.py"), ("template", "hostile")])
def test_a_file_of_a_task_reaches_a_terminal_without_escapes_and_a_pipe_as_it_is(
    board: Recorded, command: tuple[str, ...]
) -> None:
    escape = "\x1b]0;owned\x07"
    folder = board.folder / "tasks" / "hostile"
    shutil.copytree(board.folder / "tasks" / "narrow", folder)
    text = (folder / "task.yml").read_text()
    (folder / "task.yml").write_text(f"{text}templates:\n  Python: template.py\n")
    for name in ("reference.py", "template.py"):
        (folder / name).write_text(f"# {escape} here\n{REFERENCE}")
    assert escape in board.hpc_board(*command).stdout
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "hpc_board", *command]
    subprocess.run(argv, cwd=board.folder, env=board.environ(), stdout=slave, timeout=120, check=True)
    os.close(slave)
    shown = os.read(master, 1 << 16)
    os.close(master)
    assert b" here" in shown
    assert b"\x1b" not in shown


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.files_alone("the settings of a service are its own")
def test_a_settings_file_behind_a_closed_folder_is_not_called_missing(board: Recorded) -> None:
    closed = board.folder / "closed"
    closed.mkdir(mode=0o700)
    for folder in (board.folder, *board.folder.parents[:3]):
        folder.chmod(0o755)
    path = str(closed / "x.yaml")
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-m", "hpc_board", "list", "--config", path],
        cwd=board.folder,
        env=board.environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "permission denied" in done.stderr) == (2, True), done.stderr


@pytest.mark.files_alone("the settings of a service are its own")
def test_a_list_without_a_readable_task_is_an_error(board: Recorded) -> None:
    board.settings.write_text(SETTINGS.replace("[bundled, tasks]", "[tasks]"))
    assert call(board, "list").exit_code == 0
    (board.folder / "tasks" / "narrow" / "task.yml").write_text("lang: [")
    done = board.hpc_board("list", "--json")
    assert (done.returncode, done.stdout) == (2, "[]\n")
    assert "error: no task can be read." in done.stderr


@pytest.mark.files_alone("the service asks Slurm")
def test_gpus_without_slurm_name_the_missing_program_once(board: Recorded) -> None:
    board.settings.write_text(
        "board: board\nclusters: {main: {scheduler: slurm}}\ngpus: {H100: {cluster: main, partition: p}}\n"
    )
    done = board.hpc_board("gpus", PATH=str(board.folder))
    assert done.returncode == 3
    assert "sinfo cannot be run: no sinfo on PATH" in done.stdout
    assert "Errno" not in done.stdout


@pytest.mark.parametrize("words", [("compare", f"--{'a' * 5000}"), ("run", "b" * 5000), ("c" * 5000,)])
def test_an_endless_word_is_cut_in_an_error_of_usage(board: Recorded, words: tuple[str, ...]) -> None:
    done = call(board, *words)
    assert done.exit_code == 2
    assert len(done.stderr) < 700
