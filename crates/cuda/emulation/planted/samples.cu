// Correct kernels, for tests of the driver and of the speed of fibers.
#include "portable.cuh"

using namespace spirea;

KERNEL(double_words, 256, 2, (uint32_t* words, uint32_t count)) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] *= 2;
}

KERNEL(reverse_block, 256, 2, (const uint32_t* __restrict__ from, uint32_t* __restrict__ to)) {
    SHARED(uint32_t, tile);
    const uint32_t first = blockIdx.x * blockDim.x, t = threadIdx.x;
    tile[t] = from[first + t];
    block_barrier();
    to[first + t] = tile[blockDim.x - 1 - t];
}

// to[i] = from[i] + value.
KERNEL(add_value, 256, 2, (const uint32_t* from, uint32_t* to, uint32_t count, uint32_t value)) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i] + value;
}
