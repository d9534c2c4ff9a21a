"""Crashes while another process of its own holds the channel open, so that the crash would look like a hang."""

import ctypes
import os
import time


def custom_kernel(data):
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    ctypes.string_at(0)
