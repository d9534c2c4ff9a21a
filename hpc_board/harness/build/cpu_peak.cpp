// Peaks of the processors of a job: prints the bytes of memory and the float32 operations that they handle per second.
// Argument: the bytes of the memory to go through, several times those of the caches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <omp.h>

#if defined(__AVX512F__)
constexpr int WIDTH = 16;
#elif defined(__AVX__)
constexpr int WIDTH = 8;
#else
constexpr int WIDTH = 4;
#endif
typedef float vector __attribute__((vector_size(4 * WIDTH)));

constexpr int CHAINS = 12;  // independent ones, to hide the latency of a multiply-add
constexpr int SAMPLES = 25;
constexpr long STEPS = 400'000;

template <class Call>
double best_seconds(Call call) {
    double best = 1e30;
    for (int sample = 0; sample < SAMPLES; sample++) {
        auto start = std::chrono::steady_clock::now();
        call();
        std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::min(best, took.count());
    }
    return best;
}

int main(int, char** words) {
    const long count = std::atol(words[1]) / sizeof(float) / 3;
    std::unique_ptr<float[]> a(new float[count]), b(new float[count]), c(new float[count]);
    float *x = a.get(), *y = b.get(), *z = c.get();
#pragma omp parallel for
    for (long i = 0; i < count; i++) x[i] = y[i] = z[i] = 1;

    volatile float kept = 0;
    const double triad = best_seconds([&] {
#pragma omp parallel for simd
        for (long i = 0; i < count; i++) x[i] = y[i] + 0.5f * z[i];
        kept = x[count / 2];
    });
    const double read = best_seconds([&] {
        float sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
        for (long i = 0; i < count; i++) sum += y[i] + z[i];
        kept = sum;
    });
    const double bytes = std::max(3.0 * count / triad, 2.0 * count / read) * sizeof(float);

    int threads = 1;
    const double arithmetic = best_seconds([&] {
        float sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp single
            threads = omp_get_num_threads();
            vector chains[CHAINS], factor, term;
            for (int lane = 0; lane < WIDTH; lane++) factor[lane] = 0.999f, term[lane] = 1e-3f;
            for (auto& chain : chains) chain = term;
            for (long step = 0; step < STEPS; step++)
#pragma GCC unroll 12
                for (int i = 0; i < CHAINS; i++) chains[i] = chains[i] * factor + term;
            for (auto& chain : chains)
                for (int lane = 0; lane < WIDTH; lane++) sum += chain[lane];
        }
        kept = sum;
    });
    std::printf("%.6g %.6g\n", bytes, 2.0 * WIDTH * CHAINS * STEPS * threads / arithmetic);
}
