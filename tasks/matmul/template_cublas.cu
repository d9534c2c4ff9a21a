//!POPCORN leaderboard matmul

#include <cublas_v2.h>

#include "hpc_board.h"

/* The handle is made in the first call, which is not timed. */
static cublasHandle_t handle = nullptr;

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const int m = static_cast<int>(in[0].shape[0]), k = static_cast<int>(in[0].shape[1]);
    const int n = static_cast<int>(in[1].shape[1]);
    if (handle == nullptr) {
        if (cublasStatus_t status = cublasCreate(&handle)) {
            return static_cast<int>(status);
        }
        /* Neither TF32 nor half precision. */
        cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH);
    }
    cublasSetStream(handle, static_cast<cudaStream_t>(ctx->stream));
    const float one = 1, zero = 0;
    /* cuBLAS is column-major: what it sees as b and a are their transposes, and b^T a^T is c^T. */
    return static_cast<int>(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one,
                                        static_cast<const float *>(in[1].data), n,
                                        static_cast<const float *>(in[0].data), k, &zero,
                                        static_cast<float *>(out[0].data), n));
}
