// Copies between MRAM and WRAM, declared as in the SDK's header of the same name. A copy has 8 to
// 2048 bytes, a multiple of 8, and both of its addresses are multiples of 8.
#pragma once

#include <defs.h>
#include <stdint.h>

// Marks an address of MRAM, which a program can only copy from and to.
#define __mram_ptr

// Returns the MRAM after the program's own variables, through which the host and the program
// exchange data.
__mram_ptr void *spirea_mram_heap(void);
#define DPU_MRAM_HEAP_POINTER (spirea_mram_heap())

void mram_read(const __mram_ptr void *from, void *to, unsigned bytes);
void mram_write(const void *from, __mram_ptr void *to, unsigned bytes);
