"""An eval in C++ that is compiled with the submission to one program."""

from dataclasses import replace
from pathlib import Path

from hpc_board.model.gpu import Device
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Language, Mode, TaskFile
from tests.harness.compiling import needs_gcc, needs_nvcc
from tests.harness.evaluations import evaluate
from tests.harness.own_evals import EVAL_CPP, RIGHT_CPP, cpp_task
from tests.harness.test_build import DOUBLINGS
from tests.harness.test_container import BUBBLEWRAP, needs_bwrap

pytestmark = needs_gcc

WRONG = RIGHT_CPP.replace("*= 2", "*= 3")
LOOKS_AROUND = RIGHT_CPP.replace(
    "output_t custom_kernel",
    '#include <cstdlib>\n__attribute__((constructor)) static void look() { std::system("ls >&2"); }\n'
    "output_t custom_kernel",
)


def judged(where: Path, source: str = RIGHT_CPP, mode: Mode = Mode.TEST, **changes: object) -> Result:
    return evaluate(where, source, cpp_task(**changes), mode, file_name="k.cpp").result


def test_a_program_of_eval_and_submission_passes_with_cases_of_three_arguments(tmp_path: Path) -> None:
    for mode in (Mode.TEST, Mode.BENCHMARK, Mode.RANKED):
        result = judged(tmp_path / mode, mode=mode)
        assert (result.verdict, result.message) == (Verdict.PASS, "")
        assert (result.score_s is not None) == (mode is not Mode.TEST)
        assert result.provenance["harness"] == "task"
        assert (
            "g++" in str(result.provenance["compiler"]).lower() or "gcc" in str(result.provenance["compiler"]).lower()
        )


def test_flags_defines_folders_of_headers_and_libraries_are_honoured(tmp_path: Path) -> None:
    config = cpp_task().config
    missing = {
        "FACTOR": {**config, "defines": {}},
        "OVERHEAD": {**config, "compile_flags": []},
        "reference.hpp": {**config, "include_dirs": []},
        "the compiler wrote no eval.out": {**config, "compile_flags": ["-DOVERHEAD=1000", "-fsyntax-only"]},
    }
    for word, changed in missing.items():
        result = judged(tmp_path / word, config=changed)
        assert result.verdict is Verdict.COMPILE_ERROR
        assert word in result.message
    result = judged(tmp_path / "library", libraries=("no_such_library",))
    assert result.verdict is Verdict.COMPILE_ERROR
    assert "no_such_library" in result.build.text
    wrong = judged(tmp_path / "value", config={**config, "defines": {"FACTOR": "3"}})
    assert wrong.verdict is Verdict.WRONG_VALUE


def test_a_wrong_answer_and_a_crash_are_told(tmp_path: Path) -> None:
    result = judged(tmp_path / "wrong", WRONG)
    assert result.verdict is Verdict.WRONG_VALUE
    assert result.message == "test case 1 (size: 3; offset: 7; seed: 1): not twice the input"
    crashed = judged(tmp_path / "crash", RIGHT_CPP.replace("for (auto", "__builtin_trap(); for (auto"))
    assert crashed.verdict is Verdict.CRASH
    left = judged(tmp_path / "exit", "#include <cstdlib>\n" + RIGHT_CPP.replace("for (auto", "std::exit(0); for (auto"))
    assert left.verdict is Verdict.CRASH
    assert "did it call exit?" in left.message


def test_a_mode_that_the_eval_does_not_know_is_the_task_s_fault(tmp_path: Path) -> None:
    result = judged(tmp_path, mode=Mode.PROFILE)
    assert result.verdict is Verdict.TASK_ERROR
    assert "does not know the mode profile" in result.message


def test_the_program_runs_without_the_sources(tmp_path: Path) -> None:
    result = judged(tmp_path, LOOKS_AROUND)
    assert result.verdict is Verdict.PASS, result.message
    assert result.stderr.text.split() == ["eval.out", "popcorn-cases.txt"]


def test_a_submission_that_does_not_compile_is_named_by_its_own_name(tmp_path: Path) -> None:
    result = judged(tmp_path, RIGHT_CPP.replace("return", "retrun"))
    assert result.verdict is Verdict.COMPILE_ERROR
    assert result.message.startswith("g++ exited with status 1: k.cpp:")
    assert "/tmp" not in result.build.text


def test_compiling_too_long_is_a_compile_timeout(tmp_path: Path) -> None:
    bomb = f"#define B0 1 + 1\n{DOUBLINGS}long value = B40;\n{RIGHT_CPP}"
    result = judged(tmp_path, bomb, limits={"build_seconds": 3})
    assert result.verdict is Verdict.COMPILE_TIMEOUT
    assert "did not finish within 3 s" in result.message


def test_a_folder_of_headers_that_is_not_there_is_the_task_s_fault(tmp_path: Path) -> None:
    result = judged(tmp_path, config={**cpp_task().config, "include_dirs": ["/nowhere/include"]})
    assert result.verdict is Verdict.TASK_ERROR
    assert "/nowhere/include" in result.message


@needs_bwrap
def test_a_program_is_compiled_and_run_in_a_container(tmp_path: Path) -> None:
    result = evaluate(tmp_path, RIGHT_CPP, cpp_task(), Mode.RANKED, file_name="k.cpp", sandbox=BUBBLEWRAP).result
    assert (result.verdict, result.message) == (Verdict.PASS, "")


@needs_nvcc
def test_a_program_for_a_gpu_compiles_on_a_cpu_board_and_goes_no_further(tmp_path: Path) -> None:
    files = (*(file for file in cpp_task().files if file.text is not None), TaskFile("submission.cu", None))
    files = tuple(replace(file, name="eval.cu") if file.text == EVAL_CPP else file for file in files)
    config = {**cpp_task().config, "sources": ["eval.cu", "submission.cu"]}
    task = cpp_task(files=files, config=config, languages=(Language.CU,))
    result = evaluate(tmp_path, RIGHT_CPP, task, Mode.TEST, Device.CPU, file_name="k.cu", arch="sm_90a").result
    assert result.verdict is Verdict.DEVICE_ERROR, result.build.text
    assert result.message == "the submission compiles for sm_90a, but jobs for CPU run on a CPU here"
