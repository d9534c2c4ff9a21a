/*
 * Part of each C++ submission's library: on a fatal signal, the places of its stack within the library are written to a
 * descriptor, from the crash up, as a line "frame OFFSET" each; then the process ends by that signal. The handler calls
 * only functions that are safe in it, once `backtrace` has loaded its library. Before the signal of an exception that
 * nothing caught, a line "thrown WHAT" has its words.
 */

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>

#include "hpc_board.h"

/* The linker's names of the first byte of the library, and of the first one behind it. */
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;

namespace {

constexpr int frames_max = 64;
constexpr int faulting = 2; /* the frames before it are the handler and the kernel's way into it */

constexpr int characters_max = 200;

int report = -1;
std::terminate_handler terminate_of_library;
alignas(64) char stack[256 * 1024]; /* that of the thread may be used up */

void write_line(uintptr_t offset) {
    char line[] = "frame ................\n";
    for (int digit = 0; digit < 16; ++digit) line[6 + digit] = "0123456789abcdef"[(offset >> (60 - 4 * digit)) & 15];
    if (write(report, line, sizeof line - 1) < 0) return;
}

void write_frames(int number) {
    void *frames[frames_max];
    const int count = backtrace(frames, frames_max);
    for (int each = 1; each < count; ++each) {
        const char *at = static_cast<const char *>(frames[each]);
        /* A return address may belong to the next line. */
        if (at >= &__ehdr_start && at < &_end) write_line(at - &__ehdr_start - (each > faulting));
    }
    raise(number);
}

void write_words(const char *words) {
    if (write(report, "thrown ", 7) < 0 || write(report, words, strnlen(words, characters_max)) < 0) return;
    if (write(report, "\n", 1) < 0) return;
}

void write_exception() {
    try {
        if (std::current_exception()) throw;
    } catch (const std::exception &error) {
        write_words(error.what());
    } catch (...) {
        write_words("an object that is not a std::exception");
    }
    terminate_of_library();
}

}  // namespace

extern "C" HPC_EXPORT void hpc_board_report_crashes(int descriptor) {
    void *frames[1];
    backtrace(frames, 1);
    report = descriptor;
    terminate_of_library = std::set_terminate(write_exception);
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = write_frames;
    action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESETHAND;
    const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (const int number : fatal) sigaction(number, &action, nullptr);
}
