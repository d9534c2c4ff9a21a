#!POPCORN leaderboard vectoradd_py
# Expected: pass
"""Sets a part of the L2 cache aside for the memory of its inputs, to find them there in spite of the flush.

It is right, and must not be faster than the same sum without the window.
"""

import ctypes

import torch

PERSISTING_L2_CACHE_SIZE = 6
ACCESS_POLICY_WINDOW = 1
PERSISTING = 2


class Window(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("hit_ratio", ctypes.c_float),
        ("hit", ctypes.c_int),
        ("miss", ctypes.c_int),
        ("padding", ctypes.c_char * 64),
    )


STREAMS: list[torch.cuda.Stream] = []


def custom_kernel(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    a, b = data
    if not STREAMS:
        STREAMS.append(torch.cuda.Stream())
    STREAMS[0].wait_stream(torch.cuda.current_stream())
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuCtxSetLimit(PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(2**26))
    window = Window(a.data_ptr(), a.nbytes, 1.0, PERSISTING, 0)
    driver.cuStreamSetAttribute(ctypes.c_void_p(STREAMS[0].cuda_stream), ACCESS_POLICY_WINDOW, ctypes.byref(window))
    with torch.cuda.stream(STREAMS[0]):
        output = a + b
    torch.cuda.current_stream().wait_stream(STREAMS[0])
    return output
