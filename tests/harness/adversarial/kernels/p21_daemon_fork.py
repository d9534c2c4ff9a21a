"""Leaves a process behind that has left its session and holds every descriptor."""

import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()


def custom_kernel(data):
    return [2 * x for x in data]
