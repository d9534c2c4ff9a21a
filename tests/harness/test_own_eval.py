"""A task's own eval: what it may report, how it may end, and what it cannot do to the files that judge."""

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hpc_board.harness.own_eval.evaluation import _changed
from hpc_board.harness.processes.tree import children_of
from hpc_board.model.gpu import Device
from hpc_board.model.result import LIBRARY_MISSING, Verdict
from hpc_board.model.task import Mode, Ranking, Task, Timeouts
from hpc_board.runs import job_folder
from tests.harness.evaluations import RIGHT, Evaluation, await_step, evaluate, make_job_folder, progress, result_in
from tests.harness.own_evals import EVAL, judged, own_task, scoring_task, scripted
from tests.harness.test_container import BUBBLEWRAP, needs_bwrap
from tests.harness.test_interruption import HANGS_AT_10, running

KNOWS_THE_PUBLIC_CASES = """
from reference import generate_input
SEEDS = [seed + 13 * turn for seed in (1, 2, 4, 5) for turn in range(5)]
KNOWN = [generate_input(size, seed) for size in (3, 10, 100, 1000) for seed in SEEDS]
def custom_kernel(data):
    return [2 * x for x in data] if data in KNOWN else data
"""
TAMPERS = """
import os, pathlib
here = pathlib.Path(__file__).parent
if __name__ == "__main__":
    for name in ("eval.py", "reference.py"):
        try:
            os.chmod(here / name, 0o600)
            (here / name).write_text("import os; os.write(int(os.environ['POPCORN_FD']), b'check: pass')")
        except OSError as error:
            print(error)
def custom_kernel(data):
    return data
"""
LEAVES_A_CHILD = """
import os, time
def custom_kernel(data):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
    return [2 * x for x in data]
"""
FORKS_WITHOUT_END = """
import os, time
def custom_kernel(data):
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            while True:
                if os.fork():
                    os._exit(0)
                time.sleep(0.05)
    return [2 * x for x in data]
"""


def test_every_mode_passes_by_the_task_s_own_word(tmp_path: Path) -> None:
    for mode in set(Mode) - {Mode.SANITIZE}:
        result = judged(tmp_path / mode, mode=mode).result
        assert (result.verdict, result.message) == (Verdict.PASS, "")
        tests, benchmarks = (sum(case.phase == phase for case in result.cases) for phase in ("test", "benchmark"))
        assert tests == (2 if mode in (Mode.TEST, Mode.RANKED) else 0)
        assert benchmarks == (0 if mode is Mode.TEST else 2)
        assert (result.score_s is not None) == (mode in (Mode.BENCHMARK, Mode.RANKED))
        assert ("size: 100; seed: 4\ntable" in result.profile.text) == (mode is Mode.PROFILE)
        assert result.provenance["harness"] == "task"
        assert "seed" not in json.dumps(dict(result.provenance))


def test_times_are_those_that_the_eval_reports(tmp_path: Path) -> None:
    result = judged(tmp_path, mode=Mode.RANKED).result
    for case in result.cases[2:]:
        timing = case.timing
        assert timing is not None
        assert (timing.samples, timing.std_ns, timing.samples_ns, timing.time_ns) == (5, 1.0, (), timing.mean_ns)
        assert timing.best_ns <= timing.mean_ns <= timing.worst_ns


def test_a_ranked_run_is_public_and_secret_and_each_in_three_modes(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, mode=Mode.RANKED)
    steps = [line for line in progress(evaluation.folder) if line["phase"] in ("test", "benchmark")]
    modes = ["test", "benchmark", "leaderboard"]
    said = [next(mode for mode in modes if f"(mode {mode}" in line["message"]) for line in steps]
    assert list(dict.fromkeys(said[:6])) == list(dict.fromkeys(said[6:])) == modes
    assert ["secret" in line["message"] for line in steps] == [False] * 6 + [True] * 6


def test_only_the_last_benchmark_is_scored_where_it_alone_counts(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, task=own_task(ranking_by=Ranking.LAST), mode=Mode.RANKED)
    result = evaluation.result
    assert result.verdict is Verdict.PASS
    last = result.cases[-1].timing
    assert last is not None
    assert result.score_s == last.mean_ns / 1e9
    scored = [line["message"] for line in progress(evaluation.folder) if "leaderboard" in line["message"]]
    assert scored == ["size: 1000; seed: 5 (mode leaderboard)", "size: 1000; seed: 5 (mode leaderboard, secret seed)"]


def test_a_wrong_answer_is_told_with_the_eval_s_message(tmp_path: Path) -> None:
    result = judged(tmp_path, "def custom_kernel(data):\n    return data\n").result
    assert result.verdict is Verdict.WRONG_VALUE
    assert result.message.startswith("test case 1 (size: 3; seed: 1): at 0: ")
    assert [case.verdict for case in result.cases] == [Verdict.WRONG_VALUE] * 2


def test_a_run_that_fails_with_the_secret_seed_alone_is_not_ranked_and_says_so(tmp_path: Path) -> None:
    assert judged(tmp_path / "public", KNOWS_THE_PUBLIC_CASES).result.verdict is Verdict.PASS
    result = judged(tmp_path / "ranked", KNOWS_THE_PUBLIC_CASES, mode=Mode.RANKED).result
    assert result.verdict is Verdict.WRONG_VALUE
    assert result.score_s is None
    first = (
        "test case 1 (size: 3; seed: 1): passed with the public seed, failed with a secret one; the run is not ranked: "
    )
    assert result.message.startswith(f"{first}at 0: ")
    assert all(case.timing for case in result.cases if case.phase == "benchmark")


def says(*lines: str, then: str = "") -> str:
    """An eval that writes these lines into its pipe."""
    return "".join(f"say({line!r})\n" for line in lines) + then


def exits(status: int) -> str:
    return f"print('it says why', file=sys.stderr)\nsys.exit({status})\n"


GOOD = "test.0.status: pass"
ALONE = "), as does the submission on its own"


@pytest.mark.parametrize(
    ("script", "verdict", "words"),
    [
        (exits(1), Verdict.EXCEPTION, "ended by an exception (exit status 1): it says why"),
        (exits(2), Verdict.TASK_ERROR, "does not know the mode test"),
        (exits(110), Verdict.CRASH, "a call of the device's library failed (exit status 110)"),
        (exits(111), Verdict.INFRA_ERROR, "could not open its pipe"),
        (exits(112), Verdict.WRONG_VALUE, "the task's check reports a wrong output"),
        (exits(113), Verdict.TASK_ERROR, "cannot read a case of its own task.yml"),
        (exits(114), Verdict.TIMEOUT, "reports that it took too long"),
        (exits(77), Verdict.CRASH, "ended before it was done (exit status 77)"),
        # An eval that has begun to report blames neither task nor node by its status.
        (says("check: pass", then=exits(2)), Verdict.CRASH, "(exit status 2)"),
        ("raise ModuleNotFoundError(\"No module named 'torch'\")", Verdict.INFRA_ERROR, LIBRARY_MISSING),
        ("raise ModuleNotFoundError(\"No module named 'cuda.tile'\")", Verdict.INFRA_ERROR, LIBRARY_MISSING),
        ("raise ModuleNotFoundError(\"No module named 'my_own'\")", Verdict.EXCEPTION, "my_own"),
        (says(GOOD), Verdict.CRASH, "before the task's eval had printed `check`"),
        ("", Verdict.CRASH, "before the task's eval had printed `check`"),
        (says("check: pass"), Verdict.PROTOCOL_VIOLATION, "sent 1 cases, reported 0"),
        (says("test.0.status: right", "check: pass"), Verdict.PROTOCOL_VIOLATION, "right, neither pass nor fail"),
        (says("test.0.status: fail"), Verdict.WRONG_VALUE, "the task's check reports a wrong output"),
        (
            says("test.0.status: fail", "test.0.error: off\nby: one\n  at 3"),
            Verdict.WRONG_VALUE,
            "off\nby: one\n  at 3",
        ),
        ("while True: say('test.0.spec: ' + 'x' * 1000)", Verdict.OUTPUT_LIMIT, "it reported more than 4 MiB"),
        ("for n in range(60_000): say(f'test.{n}.status: pass')", Verdict.OUTPUT_LIMIT, "it reported more than 4 MiB"),
        ("while True: print('x' * 1000)", Verdict.OUTPUT_LIMIT, "it printed more than 100000 bytes"),
        ("while True: os.write(2, b'\\xff' * 1000)", Verdict.OUTPUT_LIMIT, "it printed more than 100000 bytes"),
        # More than a pipe holds.
        (says(GOOD, f"test.0.message: {'x' * 1_000_000}", "check: pass"), Verdict.PASS, ""),
    ],
)
def test_only_a_whole_report_with_status_0_passes(tmp_path: Path, script: str, verdict: Verdict, words: str) -> None:
    task = replace(scripted(f"{script}\n"), limits={"printed_bytes": 100_000})
    result = judged(tmp_path, task=task).result
    shown = " ".join([result.message, *(case.message for case in result.cases)])
    assert (result.verdict, words in shown) == (verdict, True), shown


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        *((f"import sys\nsys.exit({status})\n", f"(exit status {status}{ALONE}") for status in (2, 110, 111, 113, 114)),
        ("import os\nos.kill(os.getpid(), 11)\n", "the task's eval was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_an_end_that_the_submission_has_by_itself_blames_nobody_else(
    tmp_path: Path, submission: str, words: str
) -> None:
    result = judged(tmp_path, submission).result
    assert (result.verdict, words in result.message) == (Verdict.CRASH, True), result.message


def test_a_score_that_never_comes_since_the_import_ends_is_the_submission_s_too(tmp_path: Path) -> None:
    result = judged(tmp_path, f"import sys\nsys.exit(111)\n{RIGHT}", scoring_task()).result
    assert (result.verdict, "as does the submission on its own" in result.message) == (Verdict.CRASH, True)


SLOW_ON_UNKNOWN_CASES = KNOWS_THE_PUBLIC_CASES.replace(
    "if data in KNOWN else data", "if data in KNOWN or time.sleep(0.02) is None else data"
).replace("from reference", "import time\nfrom reference")


@pytest.mark.parametrize("ranking_by", [Ranking.GEOM, Ranking.LAST])
def test_the_score_on_inputs_that_nobody_could_know_stands_beside_the_one_that_counts(
    tmp_path: Path, ranking_by: Ranking
) -> None:
    result = judged(tmp_path / "r", SLOW_ON_UNKNOWN_CASES, own_task(ranking_by=ranking_by), Mode.RANKED).result
    unseen = result.provenance["unseen_score_s"]
    assert result.score_s is not None
    assert isinstance(unseen, float)
    assert result.score_s < 0.02 < unseen < 20
    tried = judged(tmp_path / "b", task=own_task(ranking_by=ranking_by), mode=Mode.BENCHMARK).result
    assert "unseen_score_s" not in tried.provenance


@pytest.mark.parametrize(
    ("times", "verdict", "words"),
    [
        ("mean: 1e6|runs: 5|best: 9e5|worst: 2e6|std: 1|err: 1", Verdict.PASS, ""),
        ("mean: nan", Verdict.PROTOCOL_VIOLATION, "its times are invalid: mean is nan"),
        ("mean: 1e6|runs: 1000000", Verdict.TIMING_INCONSISTENT, "it reports 1000 s of calls, but ran for "),
        ("mean: 3", Verdict.BELOW_FLOOR, "a mean of 3.00 ns is less than 100 ns"),
        ("mean: 1e6|mean: 1e5", Verdict.PROTOCOL_VIOLATION, "it reported benchmark.0.mean twice"),
    ],
)
def test_times_that_are_none_are_not_believed(tmp_path: Path, times: str, verdict: Verdict, words: str) -> None:
    said = "".join(f"say('benchmark.0.{line}')\n" for line in times.split("|"))
    task = replace(scripted(f"{said}say('check: pass')\n"), benchmarks=({"size": 100, "seed": 4},))
    result = judged(tmp_path, task=task, mode=Mode.BENCHMARK).result
    assert result.verdict is verdict
    assert words in result.message


def test_a_failure_that_a_leaderboard_run_reports_as_a_test_is_a_wrong_value(tmp_path: Path) -> None:
    task = scripted(
        "if sys.argv[1] == 'leaderboard':\n"
        "    say('test.0.status: fail'); say('test.0.error: off by one'); sys.exit(0)\n"
        "say(('test.0.status: pass' if sys.argv[1] == 'test' else 'benchmark.0.mean: 1e6')); say('check: pass')\n"
    )
    task = replace(task, benchmarks=({"size": 100, "seed": 4},))
    result = judged(tmp_path, task=task, mode=Mode.RANKED).result
    assert result.verdict is Verdict.WRONG_VALUE
    assert result.message.endswith("off by one")


def test_an_eval_that_scores_one_benchmark_fits_no_mean(tmp_path: Path) -> None:
    last = EVAL.replace("found = list(", "found = (lambda all: all[-1:] if mode == 'leaderboard' else all)(list(")
    task = own_task(last.replace("int(seed)))\n", "int(seed))))\n", 1))
    result = judged(tmp_path, task=task, mode=Mode.RANKED).result
    assert result.verdict is Verdict.TASK_ERROR
    assert "times one benchmark of 2 in mode leaderboard" in result.message


def test_the_gpu_of_the_job_is_told(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    uuid = "GPU-6ff3f9b9-9c1c-4f3e-8f3c-0c1d2e3f4a5b"
    state = f"NVIDIA H200, {uuid}, 570.1, Disabled, Default, 1980, 3201, 41, 0x4"
    program.write_text(f'#!/bin/sh\ncase "$*" in *name,uuid*) echo "{state}";; *) echo {uuid};; esac\n')
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    result = evaluate(tmp_path, RIGHT, own_task(), Mode.TEST, Device.CUDA, environ).result
    assert result.verdict is Verdict.PASS
    assert (result.provenance["gpu_name"], result.provenance["gpu_uuid"]) == ("NVIDIA H200", uuid)


@needs_bwrap
def test_an_eval_runs_in_the_container_that_the_settings_ask_for(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT, own_task(), Mode.RANKED, sandbox=BUBBLEWRAP).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")
    assert str(result.provenance["sandbox"]).startswith("bubblewrap ")


# Time, and too much of everything


def test_what_was_reported_before_the_time_was_over_is_kept(tmp_path: Path) -> None:
    result = judged(tmp_path, HANGS_AT_10, own_task(timeouts=Timeouts(2, 2, 2))).result
    assert result.verdict is Verdict.TIMEOUT
    assert [case.verdict for case in result.cases] == [Verdict.PASS, Verdict.TIMEOUT]
    assert (
        result.message == "test case 2 (size: 10; seed: 2): the task's eval did not finish within 2 s, and was stopped"
    )


def test_compiling_at_import_has_its_own_time(tmp_path: Path) -> None:
    result = judged(tmp_path, f"{RIGHT}\nimport time\ntime.sleep(60)\n", own_task(limits={"build_seconds": 1})).result
    assert result.verdict is Verdict.COMPILE_TIMEOUT
    assert "did not finish within 1 s" in result.message


# Processes and files that an eval leaves


def test_a_child_that_is_left_holds_nothing_up_and_is_killed(tmp_path: Path) -> None:
    _passes_and_leaves_no_eval(tmp_path, LEAVES_A_CHILD, own_task(timeouts=Timeouts(60, 60, 60)))


def test_what_one_start_has_left_is_gone_before_the_next(tmp_path: Path) -> None:
    looks = """
import pathlib, sys
for pid in range(max(1, os.getpid() - 20_000), os.getpid() + 200) if sys.argv[1:2] != ["test"] else ():
    entry = pathlib.Path(f"/proc/{pid}")
    try:
        parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        if parent == str(os.getppid()) and b"eval.py\\0test\\0" in (entry / "cmdline").read_bytes():
            print("of the tests:", entry.name)
    except OSError:
        pass
"""
    result = judged(tmp_path, LEAVES_A_CHILD + looks, mode=Mode.RANKED).result
    assert result.verdict is Verdict.PASS, result.message
    assert "of the tests" not in result.stdout.text


OWN_MEMORY = [
    sys.executable,
    "-c",
    "from hpc_board.harness.processes.program import *; exit(not own_shared_memory())",
]


def test_memory_with_a_name_ends_with_the_start_that_made_it(tmp_path: Path) -> None:
    if subprocess.run(OWN_MEMORY, check=False).returncode != 0:
        pytest.skip("this system gives no program a /dev/shm of its own")
    name = f"hpc-board-{uuid.uuid4().hex}"
    task = scripted(
        "import multiprocessing, pathlib\n"
        "others = list(pathlib.Path('/dev/shm').iterdir())\n"
        f"pathlib.Path('/dev/shm/{name}').write_text('kept')\n"
        "with multiprocessing.Lock(): pass\n"
        "say('test.0.status: pass'); say(f'test.0.message: {len(others)} others'); say('check: pass')\n"
    )
    seen = Path("/dev/shm", f"{name}-outside")
    seen.touch()
    try:
        result = judged(tmp_path, task=task).result
        assert (result.verdict, result.cases[0].message) == (Verdict.PASS, "0 others")
        assert list(Path("/dev/shm").glob(f"{name}*")) == [seen]
    finally:
        seen.unlink()


@pytest.mark.quiet
def test_children_that_start_others_without_end_are_killed(tmp_path: Path) -> None:
    _passes_and_leaves_no_eval(tmp_path, FORKS_WITHOUT_END, own_task())


def _passes_and_leaves_no_eval(folder: Path, submission: str, task: Task) -> None:
    """Judge a submission whose eval has this folder's path in its own, unlike the evals of other tests."""
    evaluation = evaluate(folder, submission, task, environ={"TMPDIR": str(folder)})
    assert evaluation.result.verdict is Verdict.PASS
    assert not _evals_in(folder)


def _evals_in(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"eval.py" in (entry / "cmdline").read_bytes() and (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


def test_an_interrupted_eval_keeps_what_it_had_reported(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, HANGS_AT_10, own_task(timeouts=Timeouts(100, 100, 100)), Mode.TEST)
    with running(tmp_path, folder) as shell:
        await_step(folder, "test", 2)
        (supervisor,) = children_of(shell.pid)
        os.kill(supervisor, signal.SIGTERM)
        assert shell.wait(30) == 128 + signal.SIGTERM
    result = result_in(folder)
    assert result.interrupted
    assert "tests passed: 1 of 2" in result.message
    assert [case.verdict for case in result.cases] == [Verdict.PASS]


# The files that judge


def test_the_step_that_compiles_cannot_change_the_files_that_judge(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, TAMPERS, mode=Mode.RANKED)
    assert evaluation.result.verdict is Verdict.WRONG_VALUE
    assert evaluation.result.message.startswith("test case 1 ")


def test_the_eval_s_folder_cannot_be_written_while_it_runs(tmp_path: Path) -> None:
    tampers = TAMPERS.replace('if __name__ == "__main__":', "if True:")
    result = judged(tmp_path, tampers).result
    assert result.verdict is Verdict.WRONG_VALUE
    assert "Permission denied" in result.stdout.text


def test_a_file_that_was_changed_all_the_same_is_noticed(tmp_path: Path) -> None:
    texts = {"eval.py": b"x = 1\n", "reference.py": b"y = 2\n"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    assert _changed(tmp_path, texts) == ""
    (tmp_path / "reference.py").write_bytes(b"y = 2\n# more")
    assert _changed(tmp_path, texts) == "reference.py"
    (tmp_path / "eval.py").unlink()
    (tmp_path / "eval.py").symlink_to("reference.py")
    assert _changed(tmp_path, texts) == "eval.py"


def test_a_job_folder_whose_task_was_changed_judges_nothing(tmp_path: Path) -> None:
    folder = make_job_folder(tmp_path, RIGHT, own_task(), Mode.TEST)
    (folder / "task" / "eval.py").write_text(EVAL + "\n")
    with running(tmp_path, folder) as shell:
        shell.wait(60)
    result = result_in(folder)
    assert result.verdict is Verdict.INFRA_ERROR
    assert result.message == "eval.py of the task is not the file that was sent: its hash differs"


def test_no_secret_stands_in_the_job_s_files(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, "import os\nprint(os.environ.get('POPCORN_SEED'))\n" + RIGHT, mode=Mode.RANKED)
    assert evaluation.result.verdict is Verdict.PASS
    assert "POPCORN" not in _written(evaluation)


def _written(evaluation: Evaluation) -> str:
    return "".join(
        (evaluation.folder / name).read_text() for name in (job_folder.FACTS, job_folder.PROGRESS, job_folder.RESULT)
    )
