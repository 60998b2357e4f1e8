#define _GNU_SOURCE
#include "runtime.h"

#include <alloc.h>
#include <barrier.h>
#include <mram.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(MAP_STACK)
#define MAP_STACK 0
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

// Bytes of a fiber's stack. A program may use only `stack_limit` bytes of it; the rest serves to
// detect an overflow.
#define STACK (96u << 10)
// Bytes below a stack's limit. They hold a pattern, which an overflow overwrites.
#define FENCE 4096u
#define PATTERN 0xa5
// Frames of the processor are larger than those of a DPU, because registers and pointers have 64
// bits. In addition, the first frames belong to the emulation.
#define FRAME_FACTOR 2u
#define OWN_FRAMES 2048u

enum state { READY, WAITING, DONE };

struct fiber {
    jmp_buf at;
    enum state state;
    bool started;
    barrier_t *barrier;
    uint8_t *stack;
};

// State of a thread: the run in progress and its fibers.
static __thread struct {
    struct spirea_run *run;
    unsigned long number; // number of the run
    unsigned tasklet;
    struct fiber fibers[SPIREA_MOST_TASKLETS];
    jmp_buf scheduler;
    uint8_t wram[SPIREA_WRAM_BYTES] __attribute__((aligned(8)));
    uint32_t heap_bytes; // allocated bytes of the heap
} now;

enum { YIELDED = 1, FAULT };

// Puts the DPU in fault and abandons all of its tasklets.
__attribute__((noreturn, format(printf, 1, 2))) static void fault(const char *format, ...) {
    char text[200];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    snprintf(now.run->fault, sizeof now.run->fault, "tasklet %u: %s", now.tasklet, text);
    _longjmp(now.scheduler, FAULT);
}

static uint32_t stack_limit(void) { return FRAME_FACTOR * now.run->stack_bytes + OWN_FRAMES; }

static uint8_t *fence(const struct fiber *fiber) { return fiber->stack + STACK - stack_limit() - FENCE; }

static void check_stack(const struct fiber *fiber) {
    const uint8_t *bytes = fence(fiber);
    for (uint32_t i = 0; i < FENCE; i++) {
        if (bytes[i] != PATTERN) fault("the stack has more than its %u bytes of WRAM", now.run->stack_bytes);
    }
}

// Returns the WRAM that stacks and variables leave for the heap; negative if they exceed WRAM.
static int64_t heap_room(const struct spirea_run *run) {
    return (int64_t)SPIREA_WRAM_BYTES - (int64_t)run->tasklets * run->stack_bytes - run->program->variable_bytes;
}

unsigned me(void) { return now.tasklet; }

unsigned spirea_tasklets(void) { return now.run->tasklets; }

__mram_ptr void *spirea_mram_heap(void) { return now.run->mram; }

void *mem_reset(void) {
    now.heap_bytes = 0;
    // A read of memory that the program has not written must give wrong results.
    memset(now.wram, PATTERN, sizeof now.wram);
    return now.wram;
}

void *mem_alloc(size_t bytes) {
    uint32_t place = now.heap_bytes;
    bytes = (bytes + 7) & ~(size_t)7;
    int64_t room = heap_room(now.run) - place;
    if ((int64_t)bytes > room) {
        fault("no room in WRAM for %zu bytes: %lld are left of %u beside stacks and variables", bytes, (long long)room,
              SPIREA_WRAM_BYTES);
    }
    now.heap_bytes += bytes;
    return now.wram + place;
}

static void yield_to_scheduler(struct fiber *fiber) {
    if (_setjmp(fiber->at) == 0) _longjmp(now.scheduler, YIELDED);
}

void barrier_wait(barrier_t *barrier) {
    struct fiber *fiber = &now.fibers[now.tasklet];
    check_stack(fiber);
    if (barrier->run != now.number) {
        barrier->run = now.number;
        barrier->waiting = 0;
    }
    barrier->waiting++;
    if (barrier->waiting > now.run->tasklets) fault("a barrier for more tasklets than there are");
    if (barrier->waiting == barrier->tasklets()) {
        barrier->waiting = 0;
        now.run->counts.barriers++;
        for (unsigned i = 0; i < now.run->tasklets; i++) {
            struct fiber *other = &now.fibers[i];
            if (other->state == WAITING && other->barrier == barrier) other->state = READY;
        }
        return;
    }
    fiber->state = WAITING;
    fiber->barrier = barrier;
    yield_to_scheduler(fiber);
}

// Checks the rules of the DMA engine, which are the same for both directions.
static void check_copy(const uint8_t *mram, const uint8_t *wram, unsigned bytes) {
    struct spirea_run *run = now.run;
    if (run->copies_to_fail != UINT64_MAX && run->copies_to_fail-- == 0) fault("the DPU failed, as it was told to");
    if (bytes < 8 || bytes > 2048 || bytes % 8 != 0) {
        fault("a copy of %u bytes: from 8 to 2048, a multiple of 8", bytes);
    }
    if (mram < run->mram || mram > run->mram + run->mram_bytes || bytes > run->mram + run->mram_bytes - mram) {
        fault("a copy of %u bytes beyond the %u bytes of MRAM, at %lld", bytes, run->mram_bytes,
              (long long)(mram - run->mram));
    }
    if ((mram - run->mram) % 8 != 0) fault("a copy at %lld of MRAM: not a multiple of 8", (long long)(mram - run->mram));
    if ((uintptr_t)wram % 8 != 0) fault("a copy at a place of WRAM that is not a multiple of 8");
    bool in_heap = wram >= now.wram && wram < now.wram + sizeof now.wram;
    if (in_heap && wram + bytes > now.wram + now.heap_bytes) {
        fault("a copy of %u bytes beyond the %u bytes of WRAM that are allocated", bytes, now.heap_bytes);
    }
}

void mram_read(const __mram_ptr void *from, void *to, unsigned bytes) {
    check_copy(from, to, bytes);
    now.run->counts.reads++;
    now.run->counts.read_bytes += bytes;
    memcpy(to, from, bytes);
}

void mram_write(const void *from, __mram_ptr void *to, unsigned bytes) {
    check_copy(to, from, bytes);
    now.run->counts.writes++;
    now.run->counts.write_bytes += bytes;
    memcpy(to, from, bytes);
}

static void body(void) {
    struct fiber *fiber = &now.fibers[now.tasklet];
    now.run->program->entry();
    check_stack(fiber);
    fiber->state = DONE;
    _longjmp(now.scheduler, YIELDED);
}

// Calls `body` at the end of a stack. C libraries such as musl have no contexts for this.
__attribute__((noreturn)) static void start_on(uint8_t *stack) {
#if defined(__x86_64__)
    __asm__ volatile("movq %0, %%rsp\n\tcall *%1" ::"r"(stack + STACK), "r"(body) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mov sp, %0\n\tblr %1" ::"r"(stack + STACK), "r"(body) : "memory", "x30");
#else
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = stack;
    start.uc_stack.ss_size = STACK;
    start.uc_link = NULL;
    makecontext(&start, body, 0);
    setcontext(&start);
#endif
    __builtin_unreachable();
}

// Resumes a fiber until it yields.
static int resume(struct fiber *fiber) {
    int why = _setjmp(now.scheduler);
    if (why != 0) return why;
    if (fiber->started) _longjmp(fiber->at, 1);
    fiber->started = true;
    start_on(fiber->stack);
}

static void prepare(struct fiber *fiber) {
    if (fiber->stack == NULL) {
        void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED) fault("the system has no memory for a stack");
        fiber->stack = stack;
    }
    fiber->state = READY;
    fiber->started = false;
    memset(fence(fiber), PATTERN, FENCE);
}

// Runs every tasklet up to its next barrier, in turn, until all have ended. Returns false on a
// fault.
static bool schedule(void) {
    struct spirea_run *run = now.run;
    for (;;) {
        unsigned done = 0, ran = 0;
        for (now.tasklet = 0; now.tasklet < run->tasklets; now.tasklet++) {
            struct fiber *fiber = &now.fibers[now.tasklet];
            done += fiber->state == DONE;
            if (fiber->state != READY) continue;
            ran++;
            if (resume(fiber) == FAULT) return false;
        }
        if (done == run->tasklets) return true;
        if (ran == 0) {
            snprintf(run->fault, sizeof run->fault, "%u tasklets have ended, the others wait at a barrier", done);
            return false;
        }
    }
}

static void copy_symbols(const struct spirea_program *program, uint8_t *values, bool to_program) {
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const struct spirea_symbol *symbol = &program->symbols[i];
        if (to_program) {
            memcpy(symbol->address(), values, symbol->bytes);
        } else {
            memcpy(values, symbol->address(), symbol->bytes);
        }
        values += symbol->bytes;
    }
}

bool spirea_run_dpu(struct spirea_run *run, uint8_t *symbols) {
    now.run = run;
    now.number++;
    now.tasklet = 0;
    memset(&run->counts, 0, sizeof run->counts);
    run->fault[0] = 0;
    if (heap_room(run) < 0) {
        snprintf(run->fault, sizeof run->fault, "the stacks of %u tasklets, %u bytes each, overflow WRAM", run->tasklets,
                 run->stack_bytes);
        return false;
    }
    mem_reset();
    copy_symbols(run->program, symbols, true);
    int why = _setjmp(now.scheduler);
    if (why != 0) return false;
    for (unsigned i = 0; i < run->tasklets; i++) prepare(&now.fibers[i]);
    bool whole = schedule();
    copy_symbols(run->program, symbols, false);
    return whole;
}

uint8_t *spirea_mram_new(size_t bytes) {
    void *mram = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mram == MAP_FAILED ? NULL : mram;
}

void spirea_mram_free(uint8_t *mram, size_t bytes) { munmap(mram, bytes); }
