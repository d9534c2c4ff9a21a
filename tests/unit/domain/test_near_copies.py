"""Near copies of code: what hides a copy, what is no copy, and the work for a whole course."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from hpc_board.domain import near_copies as module
from hpc_board.domain.near_copies import SHARE, NearCopy, fingerprints, near_copies
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.model.task import Language, Mode

PY = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    total = tl.where(x > y, x - y, x + y)
    tl.store(out_ptr + offsets, total, mask=mask)
"""
CU = """
__global__ void scale(const float *in, float *out, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { tile[threadIdx.x] = in[i]; __syncthreads(); out[i] = 2.0f * tile[255 - threadIdx.x] + in[n - i - 1]; }
    for (int step = 128; step > 0; step >>= 1) { if (threadIdx.x < step) out[i] += out[i + step]; __syncthreads(); }
}
"""
OTHER = """
import numpy as np

def custom_kernel(data):
    table = {}
    for key, value in zip(data[0], data[1]):
        table.setdefault(int(key), []).append(float(value))
    return np.array([sum(table[key]) / len(table[key]) if key in table else 0 for key in range(max(table) + 1)])
"""


def sent(number: int, user: str) -> Run:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    of_job = "hb-0", "nonce", "self-run", False, at, Status(RunState.FINISHED, at)
    return Run(number, number, "add", "v", user, "k.py", "CPU", "here", "", Mode.RANKED, *of_job)


def compared(codes: dict[tuple[int, str], str], own: str = "", language: Language = Language.PY) -> list[NearCopy]:
    files = {sent(*key): fingerprints(code.encode(), language) for key, code in codes.items()}
    return list(near_copies(files, fingerprints(own.encode(), language), SHARE))


COPIES = {
    "names": (Language.PY, PY, PY.replace("offsets", "places").replace("add_kernel", "my")),
    "numbers and comments": (Language.PY, PY, "# own\n" + PY.replace("0.0", "1e-9").replace("    pid", "\n\n    pid")),
    "further code": (Language.PY, PY, PY + OTHER),
    "a comment of 100 kB": (Language.PY, PY, "#" * 100_001 + PY),
    "many comments": (Language.PY, PY, "# none\n" * 50_000 + PY),
    "CUDA": (Language.CU, CU, CU.replace("tile", "shared").replace("\n    ", " /* own */ ").replace("256", "512")),
}


@pytest.mark.parametrize("change", COPIES)
def test_new_names_numbers_comments_and_further_code_hide_no_copy(change: str) -> None:
    language, one, other = COPIES[change]

    (found,) = compared({(7, "eve"): other, (3, "ada"): one}, language=language)

    assert (found.older.user, found.newer.user) == ("ada", "eve")
    assert found.share > 0.9


def test_other_code_own_earlier_files_and_the_template_are_no_copies() -> None:
    assert not compared({(1, "ada"): PY, (2, "eve"): OTHER})
    assert not compared({(1, "ada"): PY, (2, "ada"): PY + "x = 1\n"})
    assert not compared({(1, "ada"): PY, (2, "eve"): PY}, own=PY)
    (found,) = compared({(1, "ada"): PY + OTHER, (2, "eve"): PY + OTHER, (3, "bob"): PY}, own=PY)
    assert {found.older.user, found.newer.user} == {"ada", "eve"}


def test_a_pair_of_users_has_one_row_and_a_file_of_many_a_row_for_each_other() -> None:
    many = {(number, f"s{number:02}"): PY for number in range(1, 13)}
    found = compared({**many, (20, "s01"): PY + "y = 2\n"})

    assert [(each.older.id, each.newer.id) for each in found] == [(1, number) for number in range(2, 13)]


def test_ten_thousand_files_take_a_bounded_number_of_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(1)
    common = range(50)
    files = {
        sent(number, f"u{number % 1000}"): {*common, *(chosen.randrange(100, 20_000) for _ in range(60))}
        for number in range(1, 10_001)
    }
    files[sent(10_001, "copier")] = {*common, *range(10**6, 10**6 + 60)}
    files[sent(10_002, "copied")] = {*common, *range(10**6, 10**6 + 55)}
    compared_users: list[tuple[str, str]] = []
    candidates = module._candidates

    def counted(by_user: Any) -> Sequence[tuple[str, str]]:
        compared_users.extend(candidates(by_user))
        return compared_users

    monkeypatch.setattr(module, "_candidates", counted)

    (found,) = near_copies(files, set(common), SHARE)

    assert {found.older.user, found.newer.user} == {"copier", "copied"}
    assert len(compared_users) <= 2000
