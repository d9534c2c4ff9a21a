#!POPCORN leaderboard vectoradd_py
"""Vector addition in CUDA that PyTorch compiles at import."""

import torch
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor add(torch::Tensor a, torch::Tensor b);"
SOURCE = """
#include <ATen/cuda/CUDAContext.h>

__global__ void add_kernel(const float* a, const float* b, float* c, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    int64_t n = a.numel();
    add_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}
"""
# Without a GPU there is no compiler either.
MODULE = load_inline("add", DECLARATION, SOURCE, functions=["add"]) if torch.cuda.is_available() else None


def custom_kernel(data):
    return MODULE.add(*data)
