// Tasklets, declared as in the SDK's header of the same name, for the emulation and for compilers
// without the SDK.
#pragma once

#if defined(__riscv)
// Each DPU has its own program image, and so its own variables.
#define __host
#else
// The emulation runs DPUs on several threads, each DPU on one thread, so variables that a DPU's
// tasklets share are thread-local.
#define __host __thread
#endif
#define __dma_aligned __attribute__((aligned(8)))

// Returns the number of the calling tasklet, from 0 on.
unsigned me(void);

#if !defined(NR_TASKLETS)
// Returns the number of tasklets that the emulation runs; a constant in a real build.
unsigned spirea_tasklets(void);
#define NR_TASKLETS (spirea_tasklets())
#endif
