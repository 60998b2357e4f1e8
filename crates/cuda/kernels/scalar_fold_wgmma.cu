// architectures: 90a
// scalar_fold for large batches on Hopper's tensor cores, which a warpgroup keeps busy in the background.
//
// The rows of the products come through registers, because the panel layout has no core matrices, and alternate between
// two sets: while the products of a step run, the rows of the next are loaded, once the products before, which had the
// same set, are over. The columns are read in shared memory. Sums are 128 registers a thread in both kernels.
//
// Shared memory: SLOTS stages. When a stage begins, products of the stage before may still run: so its slot stays, and
// the slot before that, which all warps waited for before the barrier, is filled. Arguments, blocks and answers are
// fold_mma's, with 31 quads behind the matrix.
#include "scalar_fold_tensor.cuh"

namespace spirea {

// 128 columns a stage.
constexpr uint32_t STEPS = 4;
constexpr uint32_t SLOTS = 4;
// Stages under way: the slots without the one that is multiplied and the one that may still be.
constexpr uint32_t AHEAD = SLOTS - 2;

// The pipeline around `multiply(slot)`, which issues the products of a stage.
template <class T, class Multiply>
DEVICE void for_stages(const Words4* matrix, const Words4* planes, const TensorShape& shape, const TensorBlock& block,
                       unsigned char* slots, const Multiply& multiply) {
    Copies<T> copies(matrix, planes, shape, block);
    for (uint32_t i = 0; i < AHEAD; i++) copies.next(slots + i * T::STAGE_BYTES, shape, block);
    uint32_t slot = 0;
    for (uint32_t stage = block.first; stage < block.last; stage++) {
        copy_wait<AHEAD - 1>();
        multiplier_fence();
        block_barrier();
        copies.next(slots + (slot + AHEAD) % SLOTS * T::STAGE_BYTES, shape, block);
        multiply(slots + slot * T::STAGE_BYTES);
        slot = (slot + 1) % SLOTS;
    }
    copy_wait<0>();
}

// A step's columns: core matrices 128 bytes apart along the step, 256 bytes from eight columns to the next.
DEVICE uint64_t plane_columns(const unsigned char* planes) { return columns_descriptor(planes, 128, 256); }

}  // namespace spirea

using namespace spirea;

// 32 queries, for batches that fill no more: two warpgroups, each with 128 rows (four panels, a warp a panel) as two
// products of 64 x 128.
//
// A step is 256 cycles of a processor's tensor cores; for it the block takes 8 KiB of the matrix and 4 of planes: 48
// bytes a cycle at the full rate. The memory of an H200 gives about 18 a processor, so that for a single group it is
// the memory that bounds.
// budget: 192 registers
// uses: IGMMA
KERNEL(scalar_fold_wgmma_32, 256, 1,
       (const Words4* matrix, const Words4* planes, uint32_t* answers, TensorShape shape)) {
    using T = Tiling<8, 8, 8, STEPS>;
    SHARED(unsigned char, slots);
    const TensorBlock block = T::block(shape);
    uint32_t d[2][16][4] = {};
    uint32_t a[2][2][4] = {};
    for_stages<T>(matrix, planes, shape, block, slots, [&](const unsigned char* slot) {
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t(&rows)[2][4] = a[step % 2];
            warpgroup_wait<1>(rows[0]);
            warpgroup_wait<1>(rows[1]);
            load_rows(rows, T::panel(slot), step);
            warpgroup_fence();
            warpgroup_mma_u8u8(d[0], rows[0], plane_columns(T::planes(slot, step)));
            warpgroup_mma_u8u8(d[1], rows[1], plane_columns(T::planes(slot, step)));
            warpgroup_commit();
        }
    });
    warpgroup_finish(d[0]);
    warpgroup_finish(d[1]);
    add_answers<8>(answers, d[0], 0, shape, block);
    add_answers<8>(answers, d[1], 1, shape, block);
}

// 64 queries, where the tensor cores bound: three warpgroups, each with 64 rows (two panels, a warp a half) as products
// of 64 x 256.
//
// A step is 384 cycles of the tensor cores; for it the block takes 6 KiB of the matrix and 8 of planes: 37 bytes a
// cycle at the full rate, the least that the registers allow, since all of it comes from the second-level cache.
// budget: 168 registers
// uses: IGMMA
KERNEL(scalar_fold_wgmma_64, 384, 1,
       (const Words4* matrix, const Words4* planes, uint32_t* answers, TensorShape shape)) {
    using T = Tiling<12, 6, 16, STEPS>;
    SHARED(unsigned char, slots);
    const TensorBlock block = T::block(shape);
    const uint32_t half = threadIdx.x / 32 % 2;
    uint32_t d[32][4] = {};
    uint32_t a[2][4] = {};
    for_stages<T>(matrix, planes, shape, block, slots, [&](const unsigned char* slot) {
#pragma unroll
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t(&rows)[4] = a[step % 2];
            warpgroup_wait<1>(rows);
            uint32_t halves[2][4];
            load_rows(halves, T::panel(slot), step);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) rows[i] = half == 0 ? halves[0][i] : halves[1][i];
            warpgroup_fence();
            warpgroup_mma_u8u8(d, rows, plane_columns(T::planes(slot, step)));
            warpgroup_commit();
        }
    });
    warpgroup_finish(d);
    add_answers<16>(answers, d, half, shape, block);
}
