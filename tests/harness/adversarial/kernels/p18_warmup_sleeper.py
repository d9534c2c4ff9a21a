"""Sleeps in its first call, so that a stopping rule that counts it in would end after few timed ones."""

import hashlib
import time

import numpy as np

calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    if calls == 1:
        time.sleep(0.4)
    block, rounds = data
    return np.frombuffer(hashlib.pbkdf2_hmac("sha256", block.tobytes(), b"salt", rounds), dtype=np.uint8)
