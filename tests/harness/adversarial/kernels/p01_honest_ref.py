"""Computes what it is asked for."""

import hashlib

import numpy as np


def custom_kernel(data):
    block, rounds = data
    return np.frombuffer(hashlib.pbkdf2_hmac("sha256", block.tobytes(), b"salt", rounds), dtype=np.uint8)
