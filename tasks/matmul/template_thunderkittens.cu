//!POPCORN leaderboard matmul

/* For TMA and WGMMA, define KITTENS_HOPPER or KITTENS_BLACKWELL before this line. */
#include "kittens.cuh"

#include "hpc_board.h"

using namespace kittens;

constexpr int TILE = 32;
using matrix = gl<bf16, 1, 1, -1, -1>;
using half_tile = rt_bf<TILE, TILE>;
using column_tile = rt_bf<TILE, TILE, ducks::rt_layout::col>;

/* The tensor cores take bf16, and the task refuses its precision: each number is nearly the sum of two, to 16 bits. */
__global__ void split(const float *x, bf16 *high, bf16 *low, int64_t rows, int64_t columns, int64_t padded) {
    const int64_t row = blockIdx.y, column = static_cast<int64_t>(blockIdx.x) * TILE + threadIdx.x;
    const float value = row < rows && column < columns ? x[row * columns + column] : 0;
    const bf16 rounded = __float2bfloat16(value);
    high[row * padded + column] = rounded;
    low[row * padded + column] = __float2bfloat16(value - __bfloat162float(rounded));
}

/* One warp makes one tile of c. The product of the two low parts, below 2^-18 of a term, is left out: the task allows it. */
__global__ void multiply(const __grid_constant__ matrix a_high, const __grid_constant__ matrix a_low,
                         const __grid_constant__ matrix b_high, const __grid_constant__ matrix b_low, float *c,
                         int64_t m, int64_t n, int steps) {
    __shared__ st_fl<TILE, TILE> result;
    half_tile left_high, left_low, right;
    column_tile right_high, right_low;
    rt_fl<TILE, TILE> sum;
    const int row = blockIdx.y, column = blockIdx.x;
    warp::zero(sum);
    for (int step = 0; step < steps; ++step) {
        warp::load(left_high, a_high, {0, 0, row, step});
        warp::load(left_low, a_low, {0, 0, row, step});
        warp::load(right_high, b_high, {0, 0, step, column});
        warp::load(right_low, b_low, {0, 0, step, column});
        warp::mma_AB(sum, left_high, right_high, sum);
        warp::mma_AB(sum, left_high, right_low, sum);
        warp::mma_AB(sum, left_low, right_high, sum);
    }
    warp::store(result, sum);
    __syncwarp();
    for (int i = 0; i < TILE && row * TILE + i < m; ++i) {
        const int64_t at = column * TILE + threadIdx.x;
        if (at < n) {
            c[(row * TILE + i) * n + at] = result[{i, static_cast<int>(threadIdx.x)}];
        }
    }
}

static int64_t padded(int64_t size) { return (size + TILE - 1) / TILE * TILE; }

int64_t hpc_workspace_bytes(const hpc_tensor *in, int, const hpc_tensor *, int, const int64_t *, int,
                            const hpc_context *) {
    const int64_t m = padded(in[0].shape[0]), k = padded(in[0].shape[1]), n = padded(in[1].shape[1]);
    return 2 * (m * k + k * n) * static_cast<int64_t>(sizeof(bf16));
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    const size_t rows = padded(m), inner = padded(k), columns = padded(n);
    const cudaStream_t stream = static_cast<cudaStream_t>(ctx->stream);
    bf16 *a_high = static_cast<bf16 *>(ctx->workspace), *a_low = a_high + rows * inner;
    bf16 *b_high = a_low + rows * inner, *b_low = b_high + inner * columns;
    split<<<dim3(inner / TILE, rows), TILE, 0, stream>>>(static_cast<const float *>(in[0].data), a_high, a_low, m, k,
                                                         inner);
    split<<<dim3(columns / TILE, inner), TILE, 0, stream>>>(static_cast<const float *>(in[1].data), b_high, b_low, k,
                                                            n, columns);
    multiply<<<dim3(columns / TILE, rows / TILE), 32, 0, stream>>>(
        matrix{a_high, nullptr, nullptr, rows, inner}, matrix{a_low, nullptr, nullptr, rows, inner},
        matrix{b_high, nullptr, nullptr, inner, columns}, matrix{b_low, nullptr, nullptr, inner, columns},
        static_cast<float *>(out[0].data), m, n, static_cast<int>(inner / TILE));
    return static_cast<int>(cudaGetLastError());
}
