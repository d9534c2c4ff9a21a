"""Prints a gibibyte, to fill the memory of the process that keeps it."""

import os


def custom_kernel(data):
    piece = b"x" * 2**20
    for _ in range(1024):
        os.write(1, piece)
    return [2 * x for x in data]
