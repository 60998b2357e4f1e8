// Barriers between tasklets, as the SDK's header of this name declares them.
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
    unsigned long run; // in which `waiting` was counted
} barrier_t;
#define BARRIER_INIT(NAME, TASKLETS)                            \
    static unsigned NAME##_tasklets(void) { return TASKLETS; } \
    __host barrier_t NAME = {NAME##_tasklets, 0, 0};
#endif

// Waits until as many tasklets as the barrier is for are here.
void barrier_wait(barrier_t *barrier);
