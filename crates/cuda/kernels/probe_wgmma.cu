// architectures: 90a
// Hopper's tensor cores: a self-test of their wrappers in portable.cuh, and their rate without any memory.
#include "portable.cuh"

namespace spirea {

// Core matrices of a step's columns: 128 bytes apart along the step, 256 bytes from eight columns to the next.
constexpr uint32_t LEADING = 128, STRIDE = 256;

// One block of a warpgroup: d += a (64 x 64 bytes, by rows) b (64 x COLUMNS bytes, by columns), as two steps of 32 bytes
// in one group of products. Accumulator i of thread t is word 128 i + t of d.
template <uint32_t COLUMNS>
DEVICE void multiply_step_by_step(uint32_t* d, const uint32_t* a, const uint32_t* b, uint32_t* columns) {
    const uint32_t t = threadIdx.x, warp = t / 32, g = t % 32 / 4, c = t % 4;
    // Word w of column n belongs to step w / 8, there to core matrix (w % 8) / 4.
    for (uint32_t i = t; i < COLUMNS * 16; i += 128) {
        const uint32_t n = i / 16, w = i % 16;
        const uint32_t at = w / 8 * COLUMNS * 32 + n / 8 * STRIDE + w % 8 / 4 * LEADING + n % 8 * 16 + w % 4 * 4;
        columns[at / 4] = b[i];
    }
    multiplier_fence();
    block_barrier();
    uint32_t sums[COLUMNS / 8][4], rows[2][4];
#pragma unroll
    for (uint32_t i = 0; i < COLUMNS / 2; i++) sums[i / 4][i % 4] = d[128 * i + t];
#pragma unroll
    for (uint32_t step = 0; step < 2; step++) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) rows[step][i] = a[(16 * warp + g + 8 * (i % 2)) * 16 + 8 * step + c + 4 * (i / 2)];
    }
    warpgroup_fence();
#pragma unroll
    for (uint32_t step = 0; step < 2; step++) {
        warpgroup_mma_u8u8(sums, rows[step], columns_descriptor(columns + step * COLUMNS * 8, LEADING, STRIDE));
    }
    warpgroup_commit();
    warpgroup_finish(sums);
#pragma unroll
    for (uint32_t i = 0; i < COLUMNS / 2; i++) d[128 * i + t] = sums[i / 4][i % 4];
}

}  // namespace spirea

using namespace spirea;

// budget: 112 registers
// uses: IGMMA
KERNEL(selftest_wgmma_128, 128, 1, (uint32_t* d, const uint32_t* a, const uint32_t* b)) {
    SHARED(uint32_t, columns);
    multiply_step_by_step<128>(d, a, b, columns);
}

// budget: 176 registers
// uses: IGMMA
KERNEL(selftest_wgmma_256, 128, 1, (uint32_t* d, const uint32_t* a, const uint32_t* b)) {
    SHARED(uint32_t, columns);
    multiply_step_by_step<256>(d, a, b, columns);
}

// Two warpgroups a block, each with rows in registers and 256 columns of what lies in 8 KiB of shared memory: 4
// products a round and warpgroup.
// budget: 168 registers
// uses: IGMMA
KERNEL(rate_wgmma, 256, 1, (uint32_t* sink, uint32_t rounds)) {
    SHARED(uint32_t, columns);
    const uint32_t seed = (blockIdx.x * 256 + threadIdx.x) * 2654435761u + 12345;
    for (uint32_t i = threadIdx.x; i < 2048; i += 256) columns[i] = (i + 1) * 2246822519u;
    multiplier_fence();
    block_barrier();
    uint32_t d[32][4] = {}, rows[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) rows[i] = seed * (2 * i + 3);
    for (uint32_t round = 0; round < rounds; round++) {
        warpgroup_fence();
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) warpgroup_mma_u8u8(d, rows, columns_descriptor(columns, LEADING, STRIDE));
        warpgroup_commit();
    }
    warpgroup_finish(d);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t j = 0; j < 32; j++) sum ^= d[j][0] ^ d[j][1] ^ d[j][2] ^ d[j][3];
    sink[blockIdx.x * 256 + threadIdx.x] = sum;
}
