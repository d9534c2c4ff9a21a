"""Starts a thread in each call that goes on after it, as one does that computes ahead."""

import hashlib
import threading

import numpy as np


def custom_kernel(data):
    block, rounds = data
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return np.frombuffer(hashlib.pbkdf2_hmac("sha256", block.tobytes(), b"salt", rounds), dtype=np.uint8)
