//!POPCORN leaderboard matmul
/* One thread for each element, straight from global memory: right, and slow because every number is read many times. */

#include "hpc_board.h"

__global__ void multiply(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) {
        return;
    }
    float sum = 0;
    for (int64_t l = 0; l < k; ++l) {
        sum += a[row * k + l] * b[l * n + column];
    }
    c[row * n + column] = sum;
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    const dim3 threads(32, 8);
    const dim3 blocks(static_cast<unsigned>((n + 31) / 32), static_cast<unsigned>((m + 7) / 8));
    multiply<<<blocks, threads, 0, static_cast<cudaStream_t>(ctx->stream)>>>(
        static_cast<const float *>(in[0].data), static_cast<const float *>(in[1].data),
        static_cast<float *>(out[0].data), m, k, n);
    return static_cast<int>(cudaGetLastError());
}
