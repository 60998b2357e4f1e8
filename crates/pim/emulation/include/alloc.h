// The heap in WRAM, as the SDK's header of this name declares it.
#pragma once

#include <stddef.h>

// Forgets all that was allocated; to be called by one tasklet, before a barrier.
void *mem_reset(void);
// Memory of the heap, at a multiple of 8 bytes. Without room, the DPU is in fault.
void *mem_alloc(size_t bytes);
