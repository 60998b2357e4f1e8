#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the emulation switches fibers in x86_64 assembly only; write switch_stacks for this processor"
#endif

// Saves the registers that a function must preserve, and switches the stack.
extern "C" __attribute__((visibility("hidden"))) void spirea_switch_stacks(void** stopped_at, void* go_on_at);
asm(R"(
.text
.p2align 4
.globl spirea_switch_stacks
.hidden spirea_switch_stacks
.type spirea_switch_stacks, @function
spirea_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size spirea_switch_stacks, .-spirea_switch_stacks
)");

namespace emulation {

namespace {

// build.rs limits a kernel's frame, into which all of its calls are inlined, to half of the smaller
// stack.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK = 256 << 10;
#else
constexpr size_t STACK = 64 << 10;
#endif
constexpr size_t SLAB = 64;     // stacks mapped at once
constexpr size_t GUARD = 4096;  // below a slab

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
void switch_fiber(Fiber& from, Fiber& to) {
    if (to.bytes == 0) {  // the scheduler's own stack
        pthread_attr_t attributes;
        pthread_getattr_np(pthread_self(), &attributes);
        void* low;
        pthread_attr_getstack(&attributes, &low, &to.bytes);
        to.low = static_cast<unsigned char*>(low);
        pthread_attr_destroy(&attributes);
    }
    __sanitizer_start_switch_fiber(&from.shadow, to.low, to.bytes);
    spirea_switch_stacks(&from.stopped_at, to.stopped_at);
    __sanitizer_finish_switch_fiber(from.shadow, nullptr, nullptr);
}

void entered_fiber() { __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr); }
#else
void switch_fiber(Fiber& from, Fiber& to) { spirea_switch_stacks(&from.stopped_at, to.stopped_at); }

void entered_fiber() {}
#endif

Fiber* FiberCache::take() {
    if (parked_.empty()) grow();
    Fiber* fiber = parked_.back();
    parked_.pop_back();
    return fiber;
}

void FiberCache::grow() {
    void* slab = mmap(nullptr, GUARD + SLAB * STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (slab == MAP_FAILED || mprotect(slab, GUARD, PROT_NONE) != 0) throw std::bad_alloc();
    for (size_t i = 0; i < SLAB; i++) {
        auto* fiber = new Fiber;
        fiber->low = static_cast<unsigned char*>(slab) + GUARD + i * STACK;
        // Equally spaced stack tops would fall into the same few cache sets.
        fiber->bytes = STACK - i % 32 * 9 * 64;
        restart(*fiber);
        all_.push_back(fiber);
        parked_.push_back(fiber);
    }
}

// Builds the frame that spirea_switch_stacks pops: six registers, then the body as the return
// address. The body sees the stack as any called function does.
void FiberCache::restart(Fiber& fiber) const {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(fiber.low, fiber.bytes);
#endif
    auto top = reinterpret_cast<uintptr_t>(fiber.low + fiber.bytes) & ~uintptr_t(15);
    auto** frame = reinterpret_cast<void**>(top - 16);
    *frame = reinterpret_cast<void*>(body_);
    frame -= 6;
    std::memset(frame, 0, 6 * sizeof(void*));
    fiber.stopped_at = frame;
    fiber.shadow = nullptr;
}

void FiberCache::abandon() {
    parked_ = all_;
    for (Fiber* fiber : all_) restart(*fiber);
}

}  // namespace emulation
