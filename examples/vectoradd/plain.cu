//!POPCORN leaderboard vectoradd
/* One thread block goes through the whole vector: right, and slow because one multiprocessor does all the work. */

#include "hpc_board.h"

__global__ void add(const float *a, const float *b, float *c, int64_t size) {
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
        c[i] = a[i] + b[i];
    }
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    add<<<1, 256, 0, static_cast<cudaStream_t>(ctx->stream)>>>(
        static_cast<const float *>(in[0].data), static_cast<const float *>(in[1].data),
        static_cast<float *>(out[0].data), in[0].shape[0]);
    return static_cast<int>(cudaGetLastError());
}
