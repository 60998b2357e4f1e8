// Runtime of device programs on the processor. A thread runs one DPU at a time, with its tasklets
// as fibers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPIREA_WRAM_BYTES (64u << 10)
#define SPIREA_MOST_TASKLETS 24u

// Variable of a program that the host reads and writes. `address` returns the calling thread's
// copy.
struct spirea_symbol {
    const char *name;
    void *(*address)(void);
    uint32_t bytes;
};

// Program that was compiled for the processor.
struct spirea_program {
    const char *name;
    int (*entry)(void);
    const struct spirea_symbol *symbols;
    uint32_t symbol_count;
    // Bytes of WRAM that the program's variables take on a DPU.
    uint32_t variable_bytes;
};

// Counters of a run.
struct spirea_counts {
    uint64_t reads, read_bytes;
    uint64_t writes, write_bytes;
    uint64_t barriers;
};

// Run of a program on a DPU.
struct spirea_run {
    const struct spirea_program *program;
    uint8_t *mram;
    uint32_t mram_bytes;
    uint32_t tasklets;
    uint32_t stack_bytes;    // of each tasklet, in WRAM
    uint64_t copies_to_fail; // the DPU fails after this number of copies; UINT64_MAX for never
    struct spirea_counts counts;
    char fault[256]; // reason of the DPU's fault; empty if there is none
};

extern const struct spirea_program spirea_dpxor;
extern const struct spirea_program spirea_planted[];
extern const uint32_t spirea_planted_count;

// Allocates a zeroed MRAM; returns null if the system has no memory. The system provides pages at
// their first write.
uint8_t *spirea_mram_new(size_t bytes);
void spirea_mram_free(uint8_t *mram, size_t bytes);

// Runs all tasklets of a DPU to their end, or to the DPU's fault; returns false on a fault.
// `symbols` holds the values of the program's symbols, one after another. They are read before the
// run and written back after it, as the program left them.
bool spirea_run_dpu(struct spirea_run *run, uint8_t *symbols);
