// Accesses slightly out of bounds or misaligned. The tests look for the lines marked here.
#include "portable.cuh"

using namespace spirea;

KERNEL(shared_write, 32, 1, (uint32_t* words, uint32_t index)) {
    SHARED(uint32_t, tile);
    tile[threadIdx.x] = threadIdx.x;
    block_barrier();
    if (threadIdx.x == 7) tile[index] = 1;  // marked: shared_write
    block_barrier();
    words[threadIdx.x] = tile[threadIdx.x];
}

KERNEL(global_write, 32, 1, (uint32_t* words, uint32_t index)) {
    words[threadIdx.x] = threadIdx.x;
    if (threadIdx.x == 7) words[index] = 1;  // marked: global_write
}

KERNEL(global_read, 32, 1, (uint32_t* words, uint32_t index)) {
    if (threadIdx.x == 7) words[0] = words[index];  // marked: global_read
}

KERNEL(wide_read, 32, 1, (const uint32_t* from, uint32_t* to, uint32_t index)) {
    const Words4 four = load_once(reinterpret_cast<const Words4*>(from + index));
    to[threadIdx.x] = four.x + four.w;
}

KERNEL(shift_by, 32, 1, (uint32_t* words, uint32_t bits)) { words[threadIdx.x] = 1u << bits; }

// Pointer inside a structure, which the driver does not check.
struct Target {
    uint32_t* words;
};
KERNEL(write_through, 32, 1, (Target target)) { target.words[threadIdx.x] = threadIdx.x; }

KERNEL(misplaced_copy, 32, 1, (const uint32_t* from, uint32_t* to, uint32_t index)) {
    SHARED(uint32_t, tile);
    copy_async(tile + 4 * threadIdx.x + index, from + 4 * threadIdx.x);
    copy_commit();
    copy_wait<0>();
    to[threadIdx.x] = tile[4 * threadIdx.x + index];
}
