"""Submissions whose calls may compile code."""

import pytest

from hpc_board.harness.measure.phases import compiles_in_calls


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as f, numpy as np  # and triton\nfrom task import input_t",
        "from math import sqrt\nimport sys; from collections import deque",
    ],
)
def test_pytorch_numpy_and_python_compile_nothing(source: str) -> None:
    assert not compiles_in_calls(source)


@pytest.mark.parametrize(
    "source",
    [
        "import torch, triton",
        "import triton.language as tl",
        "    from numba import cuda",
        "import torch\nf = torch.compile(g)",
        "from torch.utils.cpp_extension import load_inline",
        "import ctypes",
        "import os\nos.system('gcc k.c')",
    ],
)
def test_other_modules_and_compilers_may_compile_in_a_call(source: str) -> None:
    assert compiles_in_calls(source)
