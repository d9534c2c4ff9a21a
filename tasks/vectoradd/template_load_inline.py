#!POPCORN leaderboard vectoradd

from task import input_t, output_t
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor add(torch::Tensor a, torch::Tensor b);"
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void add_elements(const float *a, const float *b, float *c, int64_t size) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < size) {
        c[i] = a[i] + b[i];
    }
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    const int64_t size = a.numel();
    const int threads = 256;
    add_elements<<<(size + threads - 1) / threads, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), size);
    return c;
}
"""

# nvcc and g++ compile this when the file is loaded, for a minute or two.
module = load_inline("vectoradd", cpp_sources=DECLARATION, cuda_sources=SOURCE, functions=["add"])


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors, by an extension of PyTorch."""
    return module.add(*data)
