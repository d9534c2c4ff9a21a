//!POPCORN leaderboard vectoradd
/* Wrong: adds whole blocks only, and forgets what is left over at the end. */

#include "hpc_board.h"

constexpr int64_t BLOCK = 1024;

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *) {
    const float *a = static_cast<const float *>(in[0].data);
    const float *b = static_cast<const float *>(in[1].data);
    float *c = static_cast<float *>(out[0].data);
    const int64_t size = in[0].shape[0], covered = size / BLOCK * BLOCK;
    for (int64_t i = 0; i < size; ++i) {
        c[i] = i < covered ? a[i] + b[i] : 0;
    }
    return 0;
}
