"""What goes in and what comes out."""

from typing import TypedDict

import numpy as np

matrix_t = tuple[np.ndarray, np.ndarray, np.ndarray]
input_t = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
output_t = np.ndarray


class TestSpec(TypedDict):
    """One case of task.yml."""

    rows: int
    columns: int
    entries: int
    seed: int
