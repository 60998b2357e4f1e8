// Kernels that lack a barrier, a wait or a lane, chosen by an argument. With `missing` 0 they are
// correct.
#include "portable.cuh"

using namespace spirea;

// to[t] = 3 from[n - 1 - t'] + from[n - 1 - t] with t' = t + 1 mod n, in two rounds through shared
// memory. Barriers 1 and 3 lie between a write and a read, barrier 2 between a read and the next
// write.
KERNEL(stages, 256, 1, (const uint32_t* from, uint32_t* to, uint32_t missing)) {
    SHARED(uint32_t, tile);
    const uint32_t n = blockDim.x, t = threadIdx.x, first = blockIdx.x * n;
    tile[t] = from[first + t];
    if (missing != 1) block_barrier();
    const uint32_t mirrored = tile[n - 1 - t];
    if (missing != 2) block_barrier();
    tile[t] = 3 * mirrored;
    if (missing != 3) block_barrier();
    to[first + t] = tile[(t + 1) % n] + mirrored;
}

// to[t] = from[t - 1]. Without its barrier, the result is correct only if threads happen to run
// forward.
KERNEL(shift_right, 256, 1, (const uint32_t* from, uint32_t* to, uint32_t missing)) {
    SHARED(uint32_t, tile);
    const uint32_t t = threadIdx.x;
    tile[t] = from[t];
    if (missing != 1) block_barrier();
    to[t] = t == 0 ? 0 : tile[t - 1];
}

// Each group of 64 threads mirrors its own words; the last group meets the others' number instead of its own if
// `missing` is 2.
KERNEL(groups, 256, 1, (const uint32_t* from, uint32_t* to, uint32_t missing)) {
    SHARED(uint32_t, tile);
    const uint32_t t = threadIdx.x, group = t / 64, last = blockDim.x / 64 - 1;
    tile[t] = from[t];
    if (missing != 1) group_barrier(missing == 2 && group == last ? 1 : 1 + group, 64);
    to[t] = tile[64 * group + 63 - t % 64];
}

// Within a warp: each lane takes its neighbour's word through shared memory.
KERNEL(warp_shift, 256, 1, (const uint32_t* from, uint32_t* to, uint32_t missing)) {
    SHARED(uint32_t, tile);
    const uint32_t t = threadIdx.x;
    tile[t] = from[t];
    if (missing != 1) warp_barrier();
    to[t] = tile[t ^ 1];
}

// Blocks hand a counter on: each reads it until it has the block's number, as machine code does at a grid barrier. With
// `missing` 1 they wait for a number that no block writes.
KERNEL(hand_on, 64, 1, (uint32_t* counter, uint32_t* to, uint32_t missing)) {
    const uint32_t wanted = missing == 1 ? gridDim.x : blockIdx.x;
    if (threadIdx.x == 0) {
        do emulation::spin();
        while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) != wanted);
        to[blockIdx.x] = wanted;
        atomic_add(counter, 1);
    }
    block_barrier();
}

KERNEL(divergent_barrier, 256, 1, (uint32_t* words, uint32_t first)) {
    if (threadIdx.x >= first) block_barrier();
    words[threadIdx.x] = threadIdx.x;
}

KERNEL(two_barriers, 256, 1, (uint32_t* words, uint32_t first)) {
    if (threadIdx.x >= first) {
        block_barrier();
    } else {
        block_barrier();
    }
    words[threadIdx.x] = threadIdx.x;
}

KERNEL(divergent_shuffle, 256, 1, (uint32_t* words, uint32_t first)) {
    const uint32_t t = threadIdx.x;
    uint32_t value = t;
    if (t % 32 >= first) value = from_lane(value, 31);
    words[t] = from_lane_xor(value, 1);
}

KERNEL(exited_lanes, 256, 1, (uint32_t* words, uint32_t first)) {
    if (threadIdx.x % 32 < first) return;
    words[threadIdx.x] = ballot(true);
}

KERNEL(masked_barrier, 256, 1, (uint32_t* words, uint32_t mask)) {
    words[threadIdx.x] = threadIdx.x;
    warp_barrier(mask);
}

// Each half of a warp meets alone, then both meet.
KERNEL(half_warps, 32, 1, (uint32_t* words)) {
    SHARED(uint32_t, tile);
    const uint32_t lane = threadIdx.x;
    tile[lane] = lane;
    warp_barrier(lane < 16 ? 0x0000ffffu : 0xffff0000u);
    if (lane < 16) warp_barrier(0x0000ffffu);
    words[lane] = tile[lane ^ 15] + from_lane(lane, 31);
}

// Each thread fetches 16 bytes for its neighbour. `missing`: 1 the wait, 2 the barrier, 3 the commit.
KERNEL(fetch, 256, 1, (const Words4* from, Words4* to, uint32_t missing)) {
    SHARED(Words4, tile);
    const uint32_t t = threadIdx.x;
    copy_async(tile + t, from + t);
    if (missing != 3) copy_commit();
    if (missing != 1) copy_wait<0>();
    if (missing != 2) block_barrier();
    to[t] = tile[t ^ 1];
}

// Each thread copies its own tiles, one tile ahead. With `missing` 1 it waits for one group too
// few.
KERNEL(pipeline, 32, 1, (const Words4* from, Words4* to, uint32_t tiles, uint32_t missing)) {
    SHARED(Words4, stage);
    const uint32_t t = threadIdx.x;
    copy_async(stage + t, from + t);
    copy_commit();
    for (uint32_t i = 0; i < tiles; i++) {
        if (i + 1 < tiles) copy_async(stage + 32 * ((i + 1) % 2) + t, from + 32 * (i + 1) + t);
        copy_commit();
        if (missing == 1) {
            copy_wait<2>();
        } else {
            copy_wait<1>();
        }
        to[32 * i + t] = stage[32 * (i % 2) + t];
    }
}

// sums[b] = the sum of all blocks' words; each block passes its word through a cell.
KERNEL(grid_sum, 32, 1, (const uint32_t* from, uint32_t* cells, uint32_t* sums, uint32_t* arrived, uint32_t missing)) {
    const uint32_t b = blockIdx.x;
    if (threadIdx.x == 0) cells[b] = from[b];
    if (missing != 1) grid_barrier(arrived, 1);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < gridDim.x; i++) sum += cells[i];
    if (missing != 2) grid_barrier(arrived, missing == 3 ? 1 : 2);
    if (threadIdx.x == 0) cells[b] = 0;
    if (threadIdx.x == 0) sums[b] = sum;
}
