// The eval of a task that is one file: what it defines stands beside the submission in one program, which says how
// that went in lines of "key: value" to the descriptor POPCORN_FD.
//
//     eval test|benchmark|leaderboard CASES      CASES: a file with one line for each case
//
// Exit status: 0 passed, 2 usage, 110 a CUDA error, 111 no descriptor or no cases, 112 a wrong answer.

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "reference.cuh"
#include "train.cuh"

namespace hpc_board_eval {

constexpr int WRONG = 112, NOTHING_TO_DO = 111, CUDA_ERROR = 110, USAGE = 2;
constexpr int WARM_UP_CALLS = 3, CALLS_MIN = 10, CALLS_MAX = 100;
constexpr double ENOUGH_NS = 10e9, ERROR_MAX = 0.01;

using Clock = std::chrono::steady_clock;

FILE *report = nullptr;

__attribute__((format(printf, 1, 2))) void say(const char *format, ...) {
    std::va_list values;
    va_start(values, format);
    std::vfprintf(report, format, values);
    va_end(values);
    std::fputc('\n', report);
    std::fflush(report);
}

/* Wait for everything that was sent to the device. */
void finish() {
#ifdef __CUDACC__
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
        std::exit(CUDA_ERROR);
    }
#endif
}

/* Call the submission once on inputs of its own, and check what it returned; its time in nanoseconds, negative where
   the answer is wrong. */
template <typename Data, typename Expected> double call(const Data &inputs, const Expected &expected) {
    Data data = inputs;
    finish();
    const Clock::time_point before = Clock::now();
    auto output = submission(data);
    finish();
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - before;
    return check_implementation(output, expected) ? elapsed.count() : -1;
}

/* Whether the submission is right on one case. */
bool test(int index) {
    auto inputs = generate_input();
    const bool right = call(inputs, reference(inputs)) >= 0;
    say("test.%d.status: %s", index, right ? "pass" : "fail");
    if (!right) {
        say("test.%d.error: check_implementation failed", index);
    }
    return right;
}

/* Time the submission on one case; every answer is checked. */
bool benchmark(int index) {
    auto inputs = generate_input();
    auto expected = reference(inputs);
    double sum = 0, squares = 0, best = std::numeric_limits<double>::infinity(), worst = 0;
    double mean = 0, deviation = 0, error = 0;
    int runs = 0;
    for (int number = -WARM_UP_CALLS; number < CALLS_MAX; ++number) {
        const double ns = call(inputs, expected);
        if (ns < 0) {
            say("benchmark.%d.status: fail", index);
            say("benchmark.%d.error: check_implementation failed", index);
            return false;
        }
        if (number < 0) {
            continue;
        }
        ++runs;
        sum += ns;
        squares += ns * ns;
        best = ns < best ? ns : best;
        worst = ns > worst ? ns : worst;
        mean = sum / runs;
        if (runs > 1) {
            deviation = std::sqrt(std::fmax(0, squares - sum * mean) / (runs - 1));
            error = deviation / std::sqrt(runs);
            if ((runs >= CALLS_MIN && error < ERROR_MAX * mean) || sum > ENOUGH_NS) {
                break;
            }
        }
    }
    say("benchmark.%d.runs: %d", index, runs);
    say("benchmark.%d.mean: %.17g", index, mean);
    say("benchmark.%d.std: %.17g", index, deviation);
    say("benchmark.%d.err: %.17g", index, error);
    say("benchmark.%d.best: %.17g", index, best);
    say("benchmark.%d.worst: %.17g", index, worst);
    return true;
}

int run(const std::string &mode, const char *cases) {
    const bool timed = mode == "benchmark" || mode == "leaderboard";
    if (!timed && mode != "test") {
        return USAGE;
    }
    const char *descriptor = std::getenv("POPCORN_FD");
    std::ifstream file(cases);
    report = descriptor == nullptr ? nullptr : fdopen(std::atoi(descriptor), "w");
    if (report == nullptr || !file) {
        return NOTHING_TO_DO;
    }
    int count = 0;
    for (std::string line; std::getline(file, line);) {
        ++count;
    }
    const char *what = timed ? "benchmark" : "test";
    say("%s-count: %d", what, count);
    bool right = count > 0;
    for (int index = 0; right && index < count; ++index) {
        say("%s.%d.spec: ", what, index);
        right = timed ? benchmark(index) : test(index);
    }
    say("check: %s", right ? "pass" : "fail");
    return right ? 0 : WRONG;
}

}  // namespace hpc_board_eval

int main(int count, char **arguments) {
    return count == 3 ? hpc_board_eval::run(arguments[1], arguments[2]) : hpc_board_eval::USAGE;
}
