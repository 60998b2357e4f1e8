// Programs for tests of the emulation's checks: each breaks one rule, except `right`.
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <string.h>

#include "runtime.h"

BARRIER_INIT(planted_barrier, NR_TASKLETS);
BARRIER_INIT(planted_excess, NR_TASKLETS + 1);

static int right(void) {
    uint8_t *bytes = mem_alloc(64);
    mram_read(DPU_MRAM_HEAP_POINTER, bytes, 64);
    barrier_wait(&planted_barrier);
    if (me() == 0) mram_write(bytes, DPU_MRAM_HEAP_POINTER, 64);
    return 0;
}

static int short_copy(void) {
    mram_read(DPU_MRAM_HEAP_POINTER, mem_alloc(8), 4);
    return 0;
}

static int long_copy(void) {
    mram_read(DPU_MRAM_HEAP_POINTER, mem_alloc(4096), 2056);
    return 0;
}

static int odd_copy(void) {
    mram_read(DPU_MRAM_HEAP_POINTER, mem_alloc(64), 12);
    return 0;
}

static int misaligned_mram(void) {
    mram_read((uint8_t *)DPU_MRAM_HEAP_POINTER + 4, mem_alloc(64), 8);
    return 0;
}

static int misaligned_wram(void) {
    mram_write((uint8_t *)mem_alloc(64) + 4, DPU_MRAM_HEAP_POINTER, 8);
    return 0;
}

static int beyond_mram(void) {
    mram_read((uint8_t *)DPU_MRAM_HEAP_POINTER + (64u << 20) - 8, mem_alloc(64), 16);
    return 0;
}

static int beyond_heap(void) {
    mram_read(DPU_MRAM_HEAP_POINTER, mem_alloc(8), 16);
    return 0;
}

static int large_heap(void) {
    mem_alloc(60u << 10);
    return 0;
}

static int deep_stack(void) {
    volatile uint8_t frame[20000];
    memset((void *)frame, 1, sizeof frame);
    barrier_wait(&planted_barrier);
    return frame[me()];
}

static int lonely_barrier(void) {
    if (me() == 0) barrier_wait(&planted_barrier);
    return 0;
}

static int excessive_barrier(void) {
    barrier_wait(&planted_excess);
    return 0;
}

#define PLANTED(NAME) {#NAME, NAME, NULL, 0, 8}
const struct spirea_program spirea_planted[] = {
    PLANTED(right),       PLANTED(short_copy), PLANTED(long_copy),  PLANTED(odd_copy),   PLANTED(misaligned_mram),
    PLANTED(misaligned_wram), PLANTED(beyond_mram), PLANTED(beyond_heap), PLANTED(large_heap), PLANTED(deep_stack),
    PLANTED(lonely_barrier), PLANTED(excessive_barrier),
};
const uint32_t spirea_planted_count = sizeof spirea_planted / sizeof spirea_planted[0];
