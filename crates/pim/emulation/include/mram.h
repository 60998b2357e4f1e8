// Copies between MRAM and WRAM, as the SDK's header of this name declares them: from 8 to 2048 bytes, a multiple of 8,
// between places that are multiples of 8.
#pragma once

#include <defs.h>
#include <stdint.h>

// An address of MRAM, which a program can only copy from and to.
#define __mram_ptr

// MRAM behind the program's own variables: where the host and the program meet.
__mram_ptr void *spirea_mram_heap(void);
#define DPU_MRAM_HEAP_POINTER (spirea_mram_heap())

void mram_read(const __mram_ptr void *from, void *to, unsigned bytes);
void mram_write(const void *from, __mram_ptr void *to, unsigned bytes);
