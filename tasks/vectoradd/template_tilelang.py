#!POPCORN leaderboard vectoradd

import tilelang
import tilelang.language as T
from task import input_t, output_t

BLOCK = 1024


@tilelang.jit(out_idx=[-1])
def add(block):
    """The program for vectors of any length; TileLang adds the check of bounds."""
    size = T.dynamic("size")

    @T.prim_func
    def sum_of(a: T.Tensor((size,), "float32"), b: T.Tensor((size,), "float32"), c: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, block), threads=256) as index:
            for i in T.Parallel(block):
                c[index * block + i] = a[index * block + i] + b[index * block + i]

    return sum_of


def custom_kernel(data: input_t) -> output_t:
    """The sum of the two vectors; TileLang keeps the kernel that the first call compiles."""
    return add(BLOCK)(*data)
