#!POPCORN leaderboard identity_py
"""Calls a function of the C library by ctypes."""

import ctypes

import torch

_memcpy = ctypes.CDLL(None).memcpy
_memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcpy.restype = ctypes.c_void_p


def custom_kernel(data):
    copy = torch.empty_like(data)
    _memcpy(copy.data_ptr(), data.data_ptr(), data.numel() * data.element_size())
    return copy
