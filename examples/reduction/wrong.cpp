//!POPCORN leaderboard reduction
/* Wrong: sums four columns at a time, and forgets those that are left over at the end of a row. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *x = static_cast<const float *>(in[0].data);
    float *s = static_cast<float *>(out[0].data);
    const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
    for (int64_t i = 0; i < rows; ++i) {
        const float *row = x + i * columns;
        float sums[4] = {0, 0, 0, 0};
        for (int64_t j = 0; j + 4 <= columns; j += 4) {
            for (int64_t part = 0; part < 4; ++part) {
                sums[part] += row[j + part];
            }
        }
        s[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    return 0;
}
