"""Tasks of the golden board: small, with every key that a report shows."""

from collections.abc import Mapping
from pathlib import Path

_SCAN_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: task.py, source: task.py}
lang: py
description: |
  The running sum of a list of whole numbers: `y[i] = x[0] + ... + x[i]`.

  Write `custom_kernel(data)`. Input: a list of whole numbers. Output: a new list of the same length.
templates:
  Python: template.py
  C++: template.cpp
tests:
  - {size: 4, seed: 1}
  - {size: 100, seed: 2}
benchmarks:
BENCHMARKS
ranking_by: geom
test_timeout: 60
benchmark_timeout: 90
ranked_timeout: 120
gpus: [H100, A100]
hpc_board:
  languages: [py, cpp, cu, hip]
  flags: ["-std=c++20", "-DBLOCK=64"]
  deadline: 2099-06-01T18:00+02:00
  accepts: [tf32]
  const_inputs: true
  fresh_output: true
  limits: {timed_calls_max: 50, warmup_calls: 2}
  milestones:
    - {name: one pass, source: one_pass.cu, description: "Blocks wait for each other.", exclude_gpus: [A100]}
    - {name: library, source: library.py, description: "Python's own accumulate."}
"""

_SCAN_REFERENCE = """\
import random
from itertools import accumulate


def generate_input(size, seed):
    generator = random.Random(seed)
    return [generator.randrange(1, 1000) for _ in range(size)]


def ref_kernel(data):
    return list(accumulate(data))


def check_implementation(data, output):
    expected = ref_kernel(data)
    if output == expected:
        return True, ""
    return False, f"{len(expected)} numbers were expected"
"""

_EVAL = """\
import os
import sys

from reference import check_implementation, generate_input
from submission import custom_kernel

mode, file = sys.argv[1:]
with open(file) as cases, os.fdopen(int(os.environ["POPCORN_FD"]), "w") as report:
    phase = "test" if mode == "test" else "benchmark"
    lines = cases.read().splitlines()
    report.write(f"{phase}-count: {len(lines)}\\n")
    for number, line in enumerate(lines):
        case = {key.strip(): int(value) for key, value in (part.split(":") for part in line.split(";"))}
        data = generate_input(**case)
        good, message = check_implementation(data, custom_kernel(list(data)))
        report.write(f"{phase}.{number}.spec: {line}\\n{phase}.{number}.status: {'pass' if good else 'fail'}\\n")
        if not good:
            report.write(f"{phase}.{number}.error: {message}\\n")
        elif phase == "benchmark":
            times = {"runs": 3, "mean": 2000 + number, "std": 10, "err": 5, "best": 1990, "worst": 2010}
            report.write("".join(f"{phase}.{number}.{key}: {value}\\n" for key, value in times.items()))
    report.write("check: pass\\n")
"""

_HISTO_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: eval.py}
lang: py
description: How often each digit is there, judged by the task's own eval.
libraries: [cublas]
seed: 7
tests: [{size: 10, seed: 1}]
benchmarks: [{size: 100, seed: 2}, {size: 1000, seed: 3}]
ranking_by: mean
hpc_board: {harness: task, deadline: 2024-06-30}
"""

_HISTO_REFERENCE = """\
import random


def generate_input(size, seed):
    generator = random.Random(seed)
    return [generator.randrange(10) for _ in range(size)]


def ref_kernel(data):
    return [data.count(digit) for digit in range(10)]


def check_implementation(data, output):
    return output == ref_kernel(data), "the counts differ"
"""

_NARROW_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Sort a list on a CPU.
tests: [{size: 8, seed: 1}]
benchmarks: [{size: 1024, seed: 2}, {size: 2048, seed: 3}]
gpus: [CPU]
"""

_SORT_REFERENCE = """\
import random


def generate_input(size, seed):
    generator = random.Random(seed)
    return [generator.randrange(1000) for _ in range(size)]


def ref_kernel(data):
    return sorted(data)


def check_implementation(data, output):
    return output == sorted(data)
"""

_RING_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: eval.py}
lang: py
description: Pass what each rank has to the next one.
multi_gpu: true
tests: [{world_size: 2, size: 10, seed: 1}]
benchmarks: [{world_size: 4, size: 100, seed: 2}]
"""

_COURSE_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: NOTE
tests: [{size: 8, seed: 1}]
benchmarks: [{size: SIZE, seed: 2}]
"""

_PROGRAM = """\
files:
  - {name: submission.cu, source: "@SUBMISSION@"}
  - {name: eval.cu, source: eval.cu}
lang: cu
description: A program in CUDA with a main function of its own.
config: {sources: [eval.cu, submission.cu], compile_flags: [-Wall]}
tests: [{size: 3, seed: 1}]
benchmarks: [{size: 1000, seed: 2}]
"""

KERNEL = """\
#!POPCORN leaderboard scan
#!POPCORN gpu H100


def custom_kernel(data):
    total, sums = 0, []
    for number in data:
        total += number
        sums.append(total)
    return sums
"""

HISTOGRAM = """\
def custom_kernel(data):
    return [data.count(digit) for digit in range(10)]
"""

_BENCHMARKS = ("  - {size: 1000, seed: 3}", "  - {size: 10000, seed: 4}", "  - {size: 100000, seed: 5}")


def scan(benchmarks: int) -> dict[str, str]:
    """Return the files of a task in all languages; the number of its `benchmarks` makes its version."""
    return {
        "task.yml": _SCAN_YML.replace("BENCHMARKS", "\n".join(_BENCHMARKS[:benchmarks])),
        "reference.py": _SCAN_REFERENCE,
        "task.py": "input_t = list\noutput_t = list\n",
        "template.py": "def custom_kernel(data):\n    raise NotImplementedError\n",
        "template.cpp": '#include "hpc_board.h"\n',
        "one_pass.cu": '#include "hpc_board.h"\n',
        "library.py": "from itertools import accumulate\n\ncustom_kernel = accumulate\n",
    }


def course(size: int, note: str) -> dict[str, str]:
    """Return the files of a task that a user creates a board from; `size` makes its version, and `note` does not."""
    document = _COURSE_YML.replace("SIZE", str(size)).replace("NOTE", note)
    return {"task.yml": document, "reference.py": _SORT_REFERENCE}


OTHERS: Mapping[str, Mapping[str, str]] = {
    "histo": {"task.yml": _HISTO_YML, "reference.py": _HISTO_REFERENCE, "eval.py": _EVAL},
    "narrow": {"task.yml": _NARROW_YML, "reference.py": _SORT_REFERENCE},
}
"""The tasks of the board beside `scan`."""

FOR_SCRIPTS: Mapping[str, Mapping[str, str]] = {
    "ring": {"task.yml": _RING_YML, "reference.py": _HISTO_REFERENCE, "eval.py": _EVAL},
    "program": {"task.yml": _PROGRAM, "eval.cu": "int main() { return 0; }\n"},
}
"""Tasks whose jobs are of a kind of their own: one for several GPUs, one that is a compiled program."""


def lay_out(folder: Path, files: Mapping[str, str]) -> Path:
    """Write these files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
