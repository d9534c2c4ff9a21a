"""How the checks of the tasks on NumPy arrays compare an answer with the expected one."""

import numpy as np


def close(output: object, expected: np.ndarray, tolerance: np.ndarray) -> tuple[bool, str]:
    """Whether every element of an array of float32 is within its own tolerance, and if not, what is wrong."""
    if type(output) is not np.ndarray:
        return False, f"expected a numpy.ndarray, got {type(output).__name__[:80]}"
    if output.shape != expected.shape:
        return False, f"expected the shape {list(expected.shape)}, got {str(list(output.shape))[:80]}"
    if output.dtype != np.float32:
        return False, f"expected the dtype float32, got {output.dtype}"
    # "not within" where "beyond" would do for numbers: no comparison with NaN is true.
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(output - expected) <= tolerance)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return True, ""
    first = np.unravel_index(np.argmax(wrong), wrong.shape)
    index = [int(position) for position in first]
    return False, (
        f"wrong value at {index}: expected {float(expected[first]):.9g}, got {float(output[first]):.9g}; "
        f"{count} of {wrong.size} elements are wrong"
    )
