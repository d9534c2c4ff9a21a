"""The product of a sparse matrix and a vector: its inputs, the right answer, and what counts as right."""

import numpy as np
from task import input_t, output_t
from utils import close

TOLERANCE = 1e-5


def generate_input(rows: int, columns: int, entries: int, seed: int) -> input_t:
    """Random entries; the seed decides their magnitude, and how many of them each row has."""
    generator = np.random.default_rng(seed)
    magnitude = np.float32(100 ** (generator.random() - 0.5))
    share = generator.exponential(size=rows)
    lengths = generator.multinomial(entries, share / share.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = generator.standard_normal(entries, dtype=np.float32) * magnitude
    places = generator.integers(columns, size=entries, dtype=np.int32)
    return values, places, starts, generator.standard_normal(columns, dtype=np.float32)


def sums(terms: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sum of each row's terms, in float64."""
    rows = len(starts) - 1
    return np.bincount(np.repeat(np.arange(rows), np.diff(starts)), weights=terms, minlength=rows)


def products(data: input_t) -> np.ndarray:
    """Each entry times its element of the vector, in float64."""
    values, places, _, x = data
    return values.astype(np.float64) * x[places]


def ref_kernel(data: input_t) -> output_t:
    """The product, each element rounded once."""
    return sums(products(data), data[2]).astype(np.float32)


def minimal_work(rows: int, columns: int, entries: int, seed: int) -> tuple[int, int]:
    """The vectors read and written, a product and a sum for each entry; the matrix is fixed and may be cached."""
    del seed
    return 4 * (rows + columns), 2 * entries


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Whether every element is within a tolerance that follows the length of all that it sums."""
    terms = products(data)
    return close(output, sums(terms, data[2]), TOLERANCE * np.sqrt(sums(np.square(terms), data[2])))
