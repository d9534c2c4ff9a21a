"""Tasks that bring an eval of their own, and submissions to them: what KernelBot's protocol may meet."""

from pathlib import Path
from typing import Any

from hpc_board.model.task import OWN, Language, Mode, Ranking, Task, TaskFile, Timeouts
from tests.harness.evaluations import REFERENCE, RIGHT, Evaluation, evaluate

EVAL = """
import os
import random
import sys
import time

from reference import check_implementation, generate_input


class Pipe:
    def __init__(self):
        self.file = os.fdopen(int(os.environ["POPCORN_FD"]), "w")

    def say(self, key, value):
        self.file.write(f"{key}: {value}\\n")
        self.file.flush()


def cases(path, secret):
    for line in open(path).read().splitlines():
        case = {}
        for part in line.split(";"):
            key, colon, value = part.partition(":")
            if not colon or not value.strip().isdigit():
                print("cannot read " + line, file=sys.stderr)
                sys.exit(113)
            case[key.strip()] = int(value)
        if secret is not None:
            case["seed"] = case["seed"] * 1_000_003 + secret
        yield line, case


def call(case):
    from submission import custom_kernel

    start = time.perf_counter_ns()
    data = generate_input(**case)
    output = custom_kernel(list(data))
    took = time.perf_counter_ns() - start
    good, message = check_implementation(data, output)
    return good, message, took


def main():
    if "POPCORN_FD" not in os.environ:
        return 111
    pipe, mode = Pipe(), sys.argv[1]
    if mode not in ("test", "benchmark", "leaderboard", "profile"):
        return 2
    seed = os.environ.pop("POPCORN_SEED", None)
    phase, passed = "test" if mode == "test" else "benchmark", True
    found = list(cases(sys.argv[2], None if seed is None else int(seed)))
    pipe.say(f"{phase}-count", len(found))
    for number, (line, case) in enumerate(found):
        key = f"{phase}.{number}"
        pipe.say(f"{key}.spec", line)
        if mode == "profile":
            pipe.say(f"{key}.report", "dGFibGUK")
            continue
        calls = [call({**case, "seed": case["seed"] + 13 * turn}) for turn in range(1 if mode == "test" else 5)]
        wrong = [message for good, message, _ in calls if not good]
        if wrong:
            passed = False
            pipe.say(f"{key}.status", "fail")
            pipe.say(f"{key}.error", wrong[0])
        elif mode == "test":
            pipe.say(f"{key}.status", "pass")
        else:
            times = [took for _, _, took in calls]
            for name, value in (
                ("runs", len(times)), ("mean", sum(times) / len(times)), ("std", 1.0), ("err", 0.5),
                ("best", min(times)), ("worst", max(times)),
            ):
                pipe.say(f"{key}.{name}", value)
    pipe.say("check", "pass" if passed else "fail")
    return 0 if passed else 112


if __name__ == "__main__":
    sys.exit(main())
"""
"""An eval of only the standard library, which imports the submission into its own process as many do."""


def own_task(eval_text: str = EVAL, **changes: Any) -> Task:
    """A task that doubles numbers, and judges by itself."""
    values: dict[str, Any] = {
        "name": "own",
        "language": Language.PY,
        "description": "Double every number.",
        "files": (
            TaskFile("eval.py", eval_text),
            TaskFile("reference.py", REFERENCE),
            TaskFile("submission.py", None),
        ),
        "config": {"main": "eval.py"},
        "harness": OWN,
        "tests": ({"size": 3, "seed": 1}, {"size": 10, "seed": 2}),
        "benchmarks": ({"size": 100, "seed": 4}, {"size": 1000, "seed": 5}),
        "ranking_by": Ranking.GEOM,
        "timeouts": Timeouts(20, 20, 20),
    }
    return Task(**{**values, **changes})


def scripted(lines: str) -> Task:
    """A task of one test whose eval is just these statements; `say` writes a line to the pipe."""
    head = "import os, sys, time\ndef say(text): os.write(int(os.environ['POPCORN_FD']), text.encode() + b'\\n')\n"
    return own_task(head + lines, tests=({"size": 3, "seed": 1},))


def judged(folder: Path, submission: str = RIGHT, task: Task | None = None, mode: Mode = Mode.TEST) -> Evaluation:
    """The evaluation of a submission by the eval of its task."""
    return evaluate(folder, submission, task or own_task(), mode)


SCORING_EVAL = """
import time

from reference import check_implementation, generate_input, ref_kernel
from train import custom_kernel

for _ in range(3):
    data = generate_input()
    assert check_implementation(custom_kernel(data), ref_kernel(data)), "wrong"
start = time.time()
for _ in range(10):
    custom_kernel(data)
print(f"score:{(time.time() - start) / 10:.9f}")
"""
SCORING_REFERENCE = """
def generate_input():
    return list(range(1000))

def ref_kernel(data):
    return [2 * x for x in data]

def check_implementation(output, expected):
    return output == expected
"""


def scoring_task(**changes: Any) -> Task:
    """The same as KernelBot's first generation had it: no arguments, no seeds, and one score."""
    values: dict[str, Any] = {
        "files": (
            TaskFile("eval.py", SCORING_EVAL),
            TaskFile("reference.py", SCORING_REFERENCE),
            TaskFile("train.py", None),
        ),
        "tests": ({},),
        "benchmarks": ({},),
    }
    return own_task(**{**values, **changes})


TASK_H = """
#pragma once
#include <vector>
using input_t = std::vector<double>;
using output_t = std::vector<double>;
output_t custom_kernel(input_t data);
"""
EVAL_CPP = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "reference.hpp"
#include "task.h"

static FILE* pipe_file;

static long given(const char* line, const char* name) {
    const char* found = std::strstr(line, name);
    if (!found) std::exit(113);
    return std::strtol(found + std::strlen(name), nullptr, 10);
}

static double now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * now.tv_sec + now.tv_nsec;
}

int main(int count, const char** words) {
    if (!std::getenv("POPCORN_FD")) return 111;
    pipe_file = fdopen(std::atoi(std::getenv("POPCORN_FD")), "w");
    setvbuf(pipe_file, nullptr, _IOLBF, 1024);
    const char* mode = count > 2 ? words[1] : "";
    const bool tests = !std::strcmp(mode, "test");
    if (!tests && std::strcmp(mode, "benchmark") && std::strcmp(mode, "leaderboard")) return 2;
    const char* seed = std::getenv("POPCORN_SEED");
    const char* phase = tests ? "test" : "benchmark";
    char line[1000];
    int cases = 0;
    FILE* file = std::fopen(words[2], "r");
    while (std::fgets(line, sizeof line, file)) ++cases;
    std::fprintf(pipe_file, "%s-count: %d\\n", phase, cases);
    std::rewind(file);
    bool passed = true;
    for (int number = 0; number < cases; ++number) {
        if (!std::fgets(line, sizeof line, file)) return 113;
        line[std::strcspn(line, "\\n")] = 0;
        const long mixed = given(line, "seed:") + (seed ? std::atol(seed) : 0);
        const input_t data = generate_input(given(line, "size:"), given(line, "offset:"), mixed);
        const double start_ns = now_ns();
        const output_t output = custom_kernel(data);
        const double took_ns = now_ns() - start_ns;
        std::fprintf(pipe_file, "%s.%d.spec: %s\\n", phase, number, line);
        if (output != expected(data)) {
            passed = false;
            std::fprintf(pipe_file, "%s.%d.status: fail\\n", phase, number);
            std::fprintf(pipe_file, "%s.%d.error: not twice the input\\n", phase, number);
        } else if (tests) {
            std::fprintf(pipe_file, "%s.%d.status: pass\\n", phase, number);
        } else {
            std::fprintf(pipe_file, "%s.%d.runs: 1\\n", phase, number);
            std::fprintf(pipe_file, "%s.%d.mean: %f\\n", phase, number, took_ns + OVERHEAD);
        }
    }
    std::fprintf(pipe_file, "check: %s\\n", passed ? "pass" : "fail");
    return passed ? 0 : 112;
}
"""
"""An eval without streams, strings and maps of C++, which take seconds to compile."""

REFERENCE_HPP = """
#pragma once
#include "task.h"

static input_t generate_input(long size, long offset, unsigned long seed) {
    input_t data(size);
    for (auto& each : data) {
        seed = 6364136223846793005 * seed + 1442695040888963407;
        each = offset + (seed >> 33) % 1000;
    }
    return data;
}

static output_t expected(const input_t& data) {
    output_t found = data;
    for (auto& each : found) each = FACTOR * each;
    return found;
}
"""
RIGHT_CPP = """
#include "task.h"

output_t custom_kernel(input_t data) {
    for (auto& each : data) each *= 2;
    return data;
}
"""


def cpp_task(**changes: Any) -> Task:
    """The same in C++, with cases of three arguments, macros of the task's and a header in a folder of its own."""
    values: dict[str, Any] = {
        "language": Language.CU,
        "languages": (Language.CPP,),
        "files": (
            TaskFile("eval.cpp", EVAL_CPP),
            TaskFile("task.h", TASK_H),
            TaskFile("headers/reference.hpp", REFERENCE_HPP),
            TaskFile("submission.cpp", None),
        ),
        "config": {
            "sources": ["eval.cpp", "submission.cpp"],
            "include_dirs": ["headers"],
            "defines": {"FACTOR": "2"},
            "compile_flags": ["-DOVERHEAD=1000"],
        },
        "libraries": ("m",),
        "tests": ({"size": 3, "offset": 7, "seed": 1}, {"size": 10, "offset": 0, "seed": 2}),
        "benchmarks": ({"size": 100, "offset": 1, "seed": 4}, {"size": 1000, "offset": 2, "seed": 5}),
    }
    return own_task(**{**values, **changes})


RANKS_EVAL = """
import multiprocessing
import os
import sys


def rank_main(rank, world_size, numbers, answers):
    import torch
    import torch.distributed as dist
    from submission import custom_kernel

    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    dist.init_process_group("gloo")
    part = torch.tensor(numbers[rank::world_size], dtype=torch.float64)
    answers.put((rank, custom_kernel((part, rank, world_size)).tolist()))
    dist.destroy_process_group()


def main():
    pipe, mode = os.fdopen(int(os.environ["POPCORN_FD"]), "w", buffering=1), sys.argv[1]
    phase, passed = "test" if mode == "test" else "benchmark", True
    most = int(os.environ["POPCORN_GPUS"])
    spawn = multiprocessing.get_context("spawn")
    for number, line in enumerate(open(sys.argv[2])):
        case = dict(part.strip().split(": ") for part in line.split(";"))
        world_size, size = int(case["world_size"]), int(case["size"])
        assert world_size <= most
        answers = spawn.SimpleQueue()
        numbers = list(range(size))
        given = [(rank, world_size, numbers, answers) for rank in range(world_size)]
        ranks = [spawn.Process(target=rank_main, args=each) for each in given]
        for each in ranks:
            each.start()
        found = sorted(answers.get() for _ in ranks)
        for each in ranks:
            each.join()
        right = found == [(rank, [float(sum(numbers))]) for rank in range(world_size)]
        passed = passed and right
        print(f"{phase}.{number}.status: {'pass' if right else 'fail'}", file=pipe)
        if phase == "benchmark":
            print(f"{phase}.{number}.mean: 1000000", file=pipe)
    print("check:", "pass" if passed else "fail", file=pipe)
    return 0 if passed else 112


if __name__ == "__main__":
    sys.exit(main())
"""
RIGHT_RANKS = """
import torch.distributed as dist

def custom_kernel(data):
    part, rank, world_size = data
    assert (rank, world_size) == (dist.get_rank(), dist.get_world_size())
    total = part.sum().reshape(1)
    dist.all_reduce(total)
    return total
"""


def ranks_task(**changes: Any) -> Task:
    """A sum over numbers that several ranks have, each its share."""
    values: dict[str, Any] = {
        "files": (TaskFile("eval.py", RANKS_EVAL), TaskFile("submission.py", None)),
        "multi_gpu": True,
        "tests": ({"world_size": 2, "size": 10},),
        "benchmarks": ({"world_size": 2, "size": 100},),
        "timeouts": Timeouts(120, 120, 120),
    }
    return own_task(**{**values, **changes})
