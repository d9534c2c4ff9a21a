//!POPCORN leaderboard matmul

#include "hpc_board.h"
#include <cublas_v2.h>

/* cuBLAS has matrices by columns: c = a b by rows is c' = b' a' by columns. */
int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    static cublasHandle_t handle = nullptr;
    if (handle == nullptr && cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) {
        return 1;
    }
    const int m = static_cast<int>(in[0].shape[0]), k = static_cast<int>(in[0].shape[1]);
    const int n = static_cast<int>(in[1].shape[1]);
    const float one = 1, zero = 0;
    cublasSetStream(handle, static_cast<cudaStream_t>(ctx->stream));
    return static_cast<int>(cublasSgemm(
        handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, static_cast<const float *>(in[1].data), n,
        static_cast<const float *>(in[0].data), k, &zero, static_cast<float *>(out[0].data), n));
}
