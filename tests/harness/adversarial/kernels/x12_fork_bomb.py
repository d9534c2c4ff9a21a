"""Fills the process table as far as it gets, each process in a session of its own."""

import os
import signal

for _ in range(200):
    try:
        if os.fork() == 0:
            os.setsid()
            signal.pause()
            os._exit(0)
    except OSError:
        break
print("TRIED")


def custom_kernel(data):
    return [2 * x for x in data]
