//!POPCORN leaderboard matmul

#include "hpc_board.h"

constexpr int TILE = 16;

/* Each block makes one tile of c; tiles of a and b pass through shared memory. */
__global__ void multiply(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    const int64_t row = static_cast<int64_t>(blockIdx.y) * TILE + threadIdx.y;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * TILE + threadIdx.x;
    float sum = 0;
    for (int64_t start = 0; start < k; start += TILE) {
        const int64_t across = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && across < k ? a[row * k + across] : 0;
        right[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0;
        __syncthreads();
        for (int step = 0; step < TILE; ++step) {
            sum += left[threadIdx.y][step] * right[step][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    const dim3 threads(TILE, TILE);
    const dim3 blocks(static_cast<unsigned>((n + TILE - 1) / TILE), static_cast<unsigned>((m + TILE - 1) / TILE));
    multiply<<<blocks, threads, 0, static_cast<cudaStream_t>(ctx->stream)>>>(
        static_cast<const float *>(in[0].data), static_cast<const float *>(in[1].data),
        static_cast<float *>(out[0].data), m, k, n);
    return static_cast<int>(cudaGetLastError());
}
