// The device program of protocol `dpf-xor` (IM-PIR, Algorithm 1, TaskletXOR and MasterXOR): the exclusive or of the
// records of a block that the shares of up to four queries select.
//
// Stage 1: each tasklet goes over a range of records of its own. Its selector says which queries want a record: of Q
// queries a number of Q bits, and there is an accumulator for each number but 0. So a record is added once, however
// many queries want it, and one pass over MRAM serves all of them. Then the tasklet adds its accumulators up by query.
// Stage 2: tasklet 0 adds up what all tasklets have, and writes it to MRAM.
//
// Wide records are stored in slices, one after another all first slices of the block's records, all second ones and so
// on: accumulators of a whole record would have no room.
//
// It uses nothing but the SDK's headers. NR_TASKLETS and the stack's size are the compiler's options.

#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

// The most tasklets of a DPU.
#define MOST_TASKLETS 24
// Records whose selectors fill whole words of 64 bits, however many queries there are.
#define GROUP 64
// Bytes of selectors that a tasklet reads at a time: of at least eight groups.
#define WINDOW_BYTES 256

// What the host says of a launch. Offsets are from the start of the MRAM heap, multiples of 8.
struct dpxor_arguments {
    uint32_t launch;            // a number that no other launch has: goes back with the result
    uint32_t records;           // of this DPU's block; 0 for none
    uint32_t slice_bytes;       // a multiple of 8
    uint32_t slices;            // of a record
    uint32_t queries;           // 1, 2 or 4
    uint32_t block_bytes;       // the most that is read at a time: a multiple of 8, at least a slice, at most 2048
    uint32_t accumulator_bytes; // of a tasklet: (2^queries - 1) slices
    uint32_t result;            // the launch's number in 8 bytes, then every query's slices
    uint32_t selectors;         // for each group as many words of 64 bits as queries
    uint32_t database;          // slices, `slice_stride` bytes from one to the next
    uint32_t slice_stride;
    uint32_t reserved;          // transfers are multiples of 8 bytes
};

__host struct dpxor_arguments dpxor_arguments;

// What tasklets show each other.
__host uint32_t *dpxor_sums[MOST_TASKLETS];

BARRIER_INIT(dpxor_barrier, NR_TASKLETS);

static void clear(uint32_t *words, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) words[i] = 0;
}

static void add(uint32_t *sum, const uint32_t *words, uint32_t count) {
    for (uint32_t i = 0; i < count; i += 2) {
        sum[i] ^= words[i];
        sum[i + 1] ^= words[i + 1];
    }
}

// Adds the selected ones of `count` records of 32 bytes, with the sum in registers: IM-PIR's records.
static void fold_lone_32(const uint32_t *record, const uint32_t *selectors, uint32_t at, uint32_t count, uint32_t *sum) {
    uint32_t s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
    uint32_t s4 = sum[4], s5 = sum[5], s6 = sum[6], s7 = sum[7];
    while (count > 0) {
        uint32_t bits = selectors[at / 32] >> at % 32;
        uint32_t run = 32 - at % 32;
        if (run > count) run = count;
        at += run;
        count -= run;
        for (const uint32_t *end = record + 8 * run; record != end; record += 8, bits >>= 1) {
            if (bits & 1) {
                s0 ^= record[0];
                s1 ^= record[1];
                s2 ^= record[2];
                s3 ^= record[3];
                s4 ^= record[4];
                s5 ^= record[5];
                s6 ^= record[6];
                s7 ^= record[7];
            }
        }
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
    sum[4] = s4, sum[5] = s5, sum[6] = s6, sum[7] = s7;
}

// Adds `count` records of 32 bytes to the accumulators that their selectors name. The loop is written out: most of what a
// shared pass takes is here.
static void fold_shared_32(const uint32_t *record, const uint32_t *selectors, uint32_t at, uint32_t count,
                           uint32_t queries, uint32_t *accumulators) {
    uint32_t mask = (1u << queries) - 1;
    uint32_t bit = at * queries;
    // Selector 1 names the first.
    uint32_t *before = accumulators - 8;
    while (count > 0) {
        uint32_t bits = selectors[bit / 32] >> bit % 32;
        uint32_t run = (32 - bit % 32) / queries;
        if (run > count) run = count;
        bit += run * queries;
        count -= run;
        for (const uint32_t *end = record + 8 * run; record != end; record += 8, bits >>= queries) {
            uint32_t wanted = bits & mask;
            if (wanted != 0) {
                uint32_t *sum = before + 8 * wanted;
                sum[0] ^= record[0];
                sum[1] ^= record[1];
                sum[2] ^= record[2];
                sum[3] ^= record[3];
                sum[4] ^= record[4];
                sum[5] ^= record[5];
                sum[6] ^= record[6];
                sum[7] ^= record[7];
            }
        }
    }
}

// Adds `count` records of `words` words to the accumulators that their selectors name, of which the first is that of
// record `at` of the window.
static void fold(const uint32_t *record, uint32_t words, const uint32_t *selectors, uint32_t at, uint32_t count,
                 uint32_t queries, uint32_t *accumulators) {
    uint32_t mask = (1u << queries) - 1;
    uint32_t bit = at * queries;
    while (count > 0) {
        uint32_t bits = selectors[bit / 32] >> bit % 32;
        uint32_t end = bit - bit % 32 + 32;
        for (; bit != end && count > 0; bit += queries, bits >>= queries, count--, record += words) {
            uint32_t wanted = bits & mask;
            if (wanted != 0) add(accumulators + (wanted - 1) * words, record, words);
        }
    }
}

// The accumulators' sum for each query, in `sums`.
static void add_up(const uint32_t *accumulators, uint32_t words, uint32_t queries, uint32_t *sums) {
    clear(sums, queries * words);
    for (uint32_t wanted = 1; wanted >> queries == 0; wanted++) {
        for (uint32_t query = 0; query < queries; query++) {
            if (wanted >> query & 1) add(sums + query * words, accumulators + (wanted - 1) * words, words);
        }
    }
}

int main(void) {
    uint32_t tasklet = me();
    if (tasklet == 0) mem_reset();
    barrier_wait(&dpxor_barrier);
    uint32_t *window = mem_alloc(WINDOW_BYTES);
    uint32_t *block = mem_alloc(dpxor_arguments.block_bytes);
    uint32_t *accumulators = mem_alloc(dpxor_arguments.accumulator_bytes);
    dpxor_sums[tasklet] = block;

    uint32_t queries = dpxor_arguments.queries;
    uint32_t slice_bytes = dpxor_arguments.slice_bytes;
    uint32_t words = slice_bytes / 4;
    __mram_ptr uint8_t *heap = (__mram_ptr uint8_t *)DPU_MRAM_HEAP_POINTER;
    __mram_ptr uint8_t *selectors = heap + dpxor_arguments.selectors;
    __mram_ptr uint8_t *result = heap + dpxor_arguments.result;

    // B_t = ceil(B_d / T) records, in whole groups.
    uint32_t groups = (dpxor_arguments.records + GROUP - 1) / GROUP;
    uint32_t own = (groups + NR_TASKLETS - 1) / NR_TASKLETS * GROUP;
    uint32_t first = tasklet * own;
    uint32_t last = first + own;
    if (first > dpxor_arguments.records) first = dpxor_arguments.records;
    if (last > dpxor_arguments.records) last = dpxor_arguments.records;

    // A block is of a power of two of records, so that a window holds the selectors of whole blocks.
    uint32_t block_records = 8 * WINDOW_BYTES / 4;
    while (block_records * slice_bytes > dpxor_arguments.block_bytes) block_records /= 2;
    uint32_t window_records = 8 * WINDOW_BYTES / queries;

    for (uint32_t slice = 0; slice < dpxor_arguments.slices; slice++) {
        __mram_ptr uint8_t *records = heap + dpxor_arguments.database + slice * dpxor_arguments.slice_stride;
        clear(accumulators, dpxor_arguments.accumulator_bytes / 4);
        for (uint32_t start = first; start < last; start += window_records) {
            uint32_t end = last - start > window_records ? start + window_records : last;
            uint32_t window_groups = (end - start + GROUP - 1) / GROUP;
            mram_read(selectors + start / GROUP * queries * 8, window, window_groups * queries * 8);
            for (uint32_t at = start; at < end; at += block_records) {
                uint32_t count = end - at > block_records ? block_records : end - at;
                mram_read(records + at * slice_bytes, block, count * slice_bytes);
                if (queries == 1 && words == 8) {
                    fold_lone_32(block, window, at - start, count, accumulators);
                } else if (words == 8) {
                    fold_shared_32(block, window, at - start, count, queries, accumulators);
                } else {
                    fold(block, words, window, at - start, count, queries, accumulators);
                }
            }
        }
        add_up(accumulators, words, queries, block);
        barrier_wait(&dpxor_barrier);
        if (tasklet == 0) {
            for (uint32_t other = 1; other < NR_TASKLETS; other++) add(block, dpxor_sums[other], queries * words);
            for (uint32_t query = 0; query < queries; query++) {
                uint32_t place = query * dpxor_arguments.slices + slice;
                mram_write(block + query * words, result + 8 + place * slice_bytes, slice_bytes);
            }
        }
        // The sums of others are read before they are overwritten.
        barrier_wait(&dpxor_barrier);
    }
    if (tasklet == 0) {
        window[0] = dpxor_arguments.launch;
        window[1] = 0;
        mram_write(window, result, 8);
    }
    return 0;
}
