//!POPCORN leaderboard reduction
/* Every core takes rows, and the vector units keep many partial sums of each. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *x = static_cast<const float *>(in[0].data);
    float *s = static_cast<float *>(out[0].data);
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; ++i) {
        const float *row = x + i * columns;
        float sum = 0;
#pragma omp simd reduction(+ : sum) simdlen(32)
        for (int64_t j = 0; j < columns; ++j) {
            sum += row[j];
        }
        s[i] = sum;
    }
    return 0;
}
