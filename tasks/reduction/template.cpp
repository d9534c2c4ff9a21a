//!POPCORN leaderboard reduction

#include "hpc_board.h"

/* The sum of each row in four partial sums. `hpc-board template reduction --header` prints hpc_board.h. */
int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *x = static_cast<const float *>(in[0].data);
    float *s = static_cast<float *>(out[0].data);
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
    for (int64_t i = 0; i < rows; ++i) {
        float sums[4] = {0, 0, 0, 0};
        for (int64_t j = 0; j < columns; ++j) {
            sums[j % 4] += x[i * columns + j];
        }
        s[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    return 0;
}
