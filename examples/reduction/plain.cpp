//!POPCORN leaderboard reduction
/* One number after the other, in double precision: right, and slow because each addition waits for the last. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *x = static_cast<const float *>(in[0].data);
    float *s = static_cast<float *>(out[0].data);
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
    for (int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < columns; ++j) {
            sum += x[i * columns + j];
        }
        s[i] = static_cast<float>(sum);
    }
    return 0;
}
