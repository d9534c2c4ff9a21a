"""Dereferences a null pointer in the third case."""

import ctypes

calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    if calls == 3:
        ctypes.string_at(0)
    return [2 * x for x in data]
