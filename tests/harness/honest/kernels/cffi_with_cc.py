#!POPCORN leaderboard grayscale_py
"""Compiles C by cc into its cache and loads it by cffi."""

import os
import subprocess
from pathlib import Path

import torch
from cffi import FFI

_DECLARATION = "void gray(const float *picture, float *result, long pixels)"
_SOURCE = f"""
{_DECLARATION} {{
    for (long i = 0; i < pixels; ++i)
        result[i] = 0.2126f * picture[3 * i] + 0.7152f * picture[3 * i + 1] + 0.0722f * picture[3 * i + 2];
}}
"""


def _library():
    folder = Path(os.environ.get("XDG_CACHE_HOME", ".")) / "honest"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "gray.so"
    if not library.exists():
        source = folder / "gray.c"
        source.write_text(_SOURCE)
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


_ffi = FFI()
_ffi.cdef(f"{_DECLARATION};")
_gray = _ffi.dlopen(str(_library())).gray


def custom_kernel(data):
    height, width, _ = data.shape
    result = torch.empty(height, width)
    _gray(_ffi.cast("float *", data.data_ptr()), _ffi.cast("float *", result.data_ptr()), height * width)
    return result
