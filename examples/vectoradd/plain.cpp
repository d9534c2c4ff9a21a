//!POPCORN leaderboard vectoradd
/* Copies the one and adds the other: right, and slow because the result is written twice. */

#include "hpc_board.h"

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *a = static_cast<const float *>(in[0].data);
    const float *b = static_cast<const float *>(in[1].data);
    float *c = static_cast<float *>(out[0].data);
    const int64_t size = in[0].shape[0];
    for (int64_t i = 0; i < size; ++i) {
        c[i] = a[i];
    }
    for (int64_t i = 0; i < size; ++i) {
        c[i] += b[i];
    }
    return 0;
}
