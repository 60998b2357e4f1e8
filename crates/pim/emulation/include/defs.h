// Tasklets, as the SDK's header of this name declares them, for the emulation and for compilers without the SDK.
#pragma once

#if defined(__riscv)
// One program image for each DPU: its variables are its own.
#define __host
#else
// The emulation runs DPUs on several threads, each DPU on one: what a DPU's tasklets share belongs to its thread.
#define __host __thread
#endif
#define __dma_aligned __attribute__((aligned(8)))

// The number of the calling tasklet, from 0 on.
unsigned me(void);

#if !defined(NR_TASKLETS)
// How many tasklets the emulation was asked to run; a constant in a real build.
unsigned spirea_tasklets(void);
#define NR_TASKLETS (spirea_tasklets())
#endif
