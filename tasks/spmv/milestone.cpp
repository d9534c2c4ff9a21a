//!POPCORN leaderboard spmv
/* Prepares slices of LANES rows of similar length, whose entries lie side by side: a vector has one of each row. */

#include "hpc_board.h"

#include <algorithm>
#include <numeric>
#include <vector>

constexpr int LANES = 16;

struct Matrix {
    std::vector<float> values;
    std::vector<int32_t> places;
    std::vector<int32_t> rows;   /* LANES for each slice; the last ones of the last slice are none */
    std::vector<int64_t> starts; /* of each slice, and the end of the last one */
};

int hpc_prepare(const hpc_tensor *fixed, int, const int64_t *, int, const hpc_context *, void **state) {
    const float *values = static_cast<const float *>(fixed[0].data);
    const int32_t *places = static_cast<const int32_t *>(fixed[1].data);
    const int32_t *starts = static_cast<const int32_t *>(fixed[2].data);
    const int64_t rows = fixed[2].shape[0] - 1;
    const auto length = [=](int32_t row) { return starts[row + 1] - starts[row]; };
    delete static_cast<Matrix *>(*state);
    Matrix &matrix = *new Matrix{{}, {}, std::vector<int32_t>(rows), {0}};
    *state = &matrix;
    std::iota(matrix.rows.begin(), matrix.rows.end(), 0);
    std::stable_sort(matrix.rows.begin(), matrix.rows.end(),
                     [=](int32_t one, int32_t other) { return length(one) > length(other); });
    for (int64_t slice = 0; slice < rows; slice += LANES) {
        const int64_t at = matrix.starts.back(), longest = length(matrix.rows[slice]);
        matrix.starts.push_back(at + longest * LANES);
        matrix.values.resize(matrix.starts.back());
        matrix.places.resize(matrix.starts.back());
        for (int64_t lane = 0; lane < std::min<int64_t>(LANES, rows - slice); ++lane) {
            const int32_t row = matrix.rows[slice + lane];
            for (int32_t entry = 0; entry < length(row); ++entry) {
                matrix.values[at + entry * LANES + lane] = values[starts[row] + entry];
                matrix.places[at + entry * LANES + lane] = places[starts[row] + entry];
            }
        }
    }
    return 0;
}

int custom_kernel(const hpc_tensor *in, int, hpc_tensor *out, int, const int64_t *, int, const hpc_context *ctx) {
    const Matrix &matrix = *static_cast<const Matrix *>(ctx->state);
    const float *__restrict x = static_cast<const float *>(in[0].data);
    float *__restrict y = static_cast<float *>(out[0].data);
    const int64_t rows = out[0].shape[0], slices = matrix.starts.size() - 1;
#pragma omp parallel for schedule(dynamic, 16) if (rows > 1000)
    for (int64_t slice = 0; slice < slices; ++slice) {
        float sums[LANES] = {};
        for (int64_t at = matrix.starts[slice]; at < matrix.starts[slice + 1]; at += LANES) {
#pragma omp simd
            for (int lane = 0; lane < LANES; ++lane) {
                sums[lane] += matrix.values[at + lane] * x[matrix.places[at + lane]];
            }
        }
        for (int64_t lane = 0; lane < std::min<int64_t>(LANES, rows - slice * LANES); ++lane) {
            y[matrix.rows[slice * LANES + lane]] = sums[lane];
        }
    }
    return 0;
}
