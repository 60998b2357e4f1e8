// Processor faults inside a kernel become failures of its launch: wild pointers, and the traps of
// the checks that the compiler inserts into kernels (alignment, shifts, array bounds).
#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "block.hpp"
#include "fiber.hpp"

namespace emulation {

namespace {

struct ProcessorFault {
    int signal;
    const void* address;
    void* instruction;
};
__thread ProcessorFault last;

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction before[64];

// Returns the source line of an instruction from addr2line, which comes with every compiler; empty
// if it is not available.
std::string source_line(void* instruction) {
    Dl_info library;
    if (!dladdr(instruction, &library)) return "";
    const auto offset = static_cast<const char*>(instruction) - static_cast<const char*>(library.dli_fbase);
    char command[1024];
    std::snprintf(command, sizeof command, "addr2line -e '%s' %#tx 2>/dev/null", library.dli_fname, offset);
    FILE* pipe = popen(command, "r");
    if (!pipe) return "";
    char line[512] = "";
    if (!std::fgets(line, sizeof line, pipe)) line[0] = 0;
    pclose(pipe);
    line[std::strcspn(line, "\n")] = 0;
    return line[0] == 0 || line[0] == '?' ? "" : std::string(" at ") + line;
}

// Reports the fault. Runs on the faulting fiber's stack, as if the faulting instruction had called
// it.
[[noreturn]] void after_fault() {
    const ProcessorFault fault = last;
    const std::string line = source_line(fault.instruction);
    switch (fault.signal) {
        case SIGFPE:
            fail(LAUNCH_FAILED, "division by zero%s", line.c_str());
        case SIGILL:
            fail(MISALIGNED_ADDRESS, "misaligned access, or a shift or an index out of range%s", line.c_str());
        default:
            fail(ILLEGAL_ADDRESS, "access to %p, which is no memory%s", fault.address, line.c_str());
    }
}

void handle(int signal, siginfo_t* info, void* context) {
    if (!current) {  // not in a kernel: restore the old handler and let the instruction fault again
        sigaction(signal, &before[signal], nullptr);
        return;
    }
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    last = {signal, info->si_addr, reinterpret_cast<void*>(registers[REG_RIP])};
#if defined(__SANITIZE_ADDRESS__)
    // Below the red zone, where AddressSanitizer's shadow marks no variables.
    const greg_t top = registers[REG_RSP] - 256;
#else
    // Start at the stack's top, over frames that will never be returned to: the fault may be a
    // stack overflow.
    const auto top = reinterpret_cast<greg_t>(current->fiber->low + current->fiber->bytes);
#endif
    registers[REG_RSP] = (top & ~15ll) - 8;  // aligned as at a function's entry
    registers[REG_RIP] = reinterpret_cast<greg_t>(after_fault);
}

}  // namespace

// A stack overflow can be handled only on an alternate signal stack. Threads of Rust already have
// one.
void install_signal_stack() {
    constexpr size_t BYTES = 64 << 10;
    stack_t stack = {};
    if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
    stack.ss_flags = 0;
    stack.ss_size = BYTES;
    stack.ss_sp = new unsigned char[BYTES];
    sigaltstack(&stack, nullptr);
}

void install_fault_handlers() {
    static const bool installed = [] {
        for (int signal : SIGNALS) {
#if defined(__SANITIZE_ADDRESS__)
            if (signal != SIGILL) continue;  // AddressSanitizer reports the others better
#endif
            struct sigaction action = {};
            action.sa_sigaction = handle;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigaction(signal, &action, &before[signal]);
        }
        return true;
    }();
    (void)installed;
}

}  // namespace emulation
