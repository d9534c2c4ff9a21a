//!POPCORN leaderboard vectoradd
/* Every core adds a part, as many numbers at a time as its vector unit takes. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *__restrict a = static_cast<const float *>(in[0].data);
    const float *__restrict b = static_cast<const float *>(in[1].data);
    float *__restrict c = static_cast<float *>(out[0].data);
    const int64_t size = in[0].shape[0];
#pragma omp parallel for simd schedule(static) if (size > 100000)
    for (int64_t i = 0; i < size; ++i) {
        c[i] = a[i] + b[i];
    }
    return 0;
}
