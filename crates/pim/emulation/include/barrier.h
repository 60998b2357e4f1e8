// Barriers between tasklets, declared as in the SDK's header of the same name.
#pragma once

#include <defs.h>

#if defined(__riscv)
typedef struct {
    unsigned tasklets;
} barrier_t;
#define BARRIER_INIT(NAME, TASKLETS) barrier_t NAME = {TASKLETS};
#else
typedef struct {
    unsigned (*tasklets)(void);
    unsigned waiting;
    unsigned long run; // run in which `waiting` was counted
} barrier_t;
#define BARRIER_INIT(NAME, TASKLETS)                            \
    static unsigned NAME##_tasklets(void) { return TASKLETS; } \
    __host barrier_t NAME = {NAME##_tasklets, 0, 0};
#endif

// Waits until all tasklets of the barrier have arrived.
void barrier_wait(barrier_t *barrier);
