"""What goes in and what comes out."""

from typing import TypedDict

import numpy as np

input_t = tuple[np.ndarray, int]
output_t = np.ndarray


class TestSpec(TypedDict):
    """One case of task.yml."""

    rows: int
    columns: int
    steps: int
    seed: int
