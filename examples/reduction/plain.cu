//!POPCORN leaderboard reduction
/* One thread for each row: right, and slow because neighbouring threads read numbers that lie far apart. */

#include "hpc_board.h"

__global__ void sum_rows(const float *x, float *s, int64_t rows, int64_t columns) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= rows) {
        return;
    }
    float sums[4] = {0, 0, 0, 0};
    for (int64_t j = 0; j < columns; ++j) {
        sums[j % 4] += x[i * columns + j];
    }
    s[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
    const unsigned blocks = static_cast<unsigned>((rows + 127) / 128);
    sum_rows<<<blocks, 128, 0, static_cast<cudaStream_t>(ctx->stream)>>>(
        static_cast<const float *>(in[0].data), static_cast<float *>(out[0].data), rows, columns);
    return static_cast<int>(cudaGetLastError());
}
