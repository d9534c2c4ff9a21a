#!POPCORN leaderboard histogram_py
"""Forks a pool of processes when it is imported, which count in memory that they share with it."""

import mmap
import multiprocessing

import numpy as np
import torch

_PROCESSES, _VALUES, _BYTES_MAX = 2, 256, 2**23

_fork = multiprocessing.get_context("fork")
_bytes = np.frombuffer(mmap.mmap(-1, _BYTES_MAX), dtype=np.uint8)
_counts = np.frombuffer(mmap.mmap(-1, _PROCESSES * _VALUES * 8), dtype=np.int64).reshape(_PROCESSES, _VALUES)


def _count(number, channel):
    while True:
        begin, end = channel.recv()
        _counts[number] = np.bincount(_bytes[begin:end], minlength=_VALUES)
        channel.send(True)


def _started(number):
    own, other = _fork.Pipe()
    _fork.Process(target=_count, args=(number, other), daemon=True).start()
    return own


_channels = [_started(number) for number in range(_PROCESSES)]


def custom_kernel(data):
    size = data.numel()
    _bytes[:size] = data.numpy()
    for number, channel in enumerate(_channels):
        channel.send((number * size // _PROCESSES, (number + 1) * size // _PROCESSES))
    for channel in _channels:
        channel.recv()
    return torch.from_numpy(_counts.sum(axis=0))
