//!POPCORN leaderboard spmv
/* Every core takes some rows at a time, as it is done with others: rows are of unequal length. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *__restrict values = static_cast<const float *>(in[0].data);
    const int32_t *__restrict places = static_cast<const int32_t *>(in[1].data);
    const int32_t *__restrict starts = static_cast<const int32_t *>(in[2].data);
    const float *__restrict x = static_cast<const float *>(in[3].data);
    float *__restrict y = static_cast<float *>(out[0].data);
    const int64_t rows = out[0].shape[0];
#pragma omp parallel for schedule(dynamic, 256) if (rows > 1000)
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int32_t entry = starts[row]; entry < starts[row + 1]; ++entry) {
            sum += values[entry] * x[places[entry]];
        }
        y[row] = sum;
    }
    return 0;
}
