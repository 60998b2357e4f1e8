// Heap in WRAM, declared as in the SDK's header of the same name.
#pragma once

#include <stddef.h>

// Frees all allocations. One tasklet must call it, before a barrier.
void *mem_reset(void);
// Allocates memory of the heap, aligned to 8 bytes. If the heap has no room, the DPU faults.
void *mem_alloc(size_t bytes);
