//!POPCORN leaderboard spmv

#include "hpc_board.h"

/* Row by row, by one thread. `hpc-board template spmv --header` prints hpc_board.h. */
int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *values = static_cast<const float *>(in[0].data);
    const int32_t *places = static_cast<const int32_t *>(in[1].data);
    const int32_t *starts = static_cast<const int32_t *>(in[2].data);
    const float *x = static_cast<const float *>(in[3].data);
    float *y = static_cast<float *>(out[0].data);
    for (int64_t row = 0; row < out[0].shape[0]; ++row) {
        float sum = 0;
        for (int32_t entry = starts[row]; entry < starts[row + 1]; ++entry) {
            sum += values[entry] * x[places[entry]];
        }
        y[row] = sum;
    }
    return 0;
}
