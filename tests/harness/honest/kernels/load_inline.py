#!POPCORN leaderboard vectoradd_py
"""Compiles C++ by torch.utils.cpp_extension.load_inline when it is imported."""

import torch
from torch.utils.cpp_extension import load_inline

# PyTorch's own headers take half a minute to compile; addresses do without them.
_SOURCE = """
#include <pybind11/pybind11.h>
#include <cstdint>

void add(std::intptr_t a, std::intptr_t b, std::intptr_t c, std::int64_t size) {
    const float *one = reinterpret_cast<const float *>(a), *other = reinterpret_cast<const float *>(b);
    float *sum = reinterpret_cast<float *>(c);
    for (std::int64_t i = 0; i < size; ++i) sum[i] = one[i] + other[i];
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("add", &add); }
"""

_extension = load_inline("honest_add", _SOURCE, extra_cflags=["-O3"], no_implicit_headers=True)


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    _extension.add(a.data_ptr(), b.data_ptr(), c.data_ptr(), a.numel())
    return c
