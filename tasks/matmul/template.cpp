//!POPCORN leaderboard matmul

#include "hpc_board.h"

/* The product element by element. `hpc-board template matmul --header` prints hpc_board.h. */
int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *a = static_cast<const float *>(in[0].data);
    const float *b = static_cast<const float *>(in[1].data);
    float *c = static_cast<float *>(out[0].data);
    const int64_t m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t l = 0; l < k; ++l) {
                sum += a[i * k + l] * b[l * n + j];
            }
            c[i * n + j] = sum;
        }
    }
    return 0;
}
