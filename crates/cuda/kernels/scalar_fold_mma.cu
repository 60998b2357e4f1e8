// scalar_fold for batches, on tensor cores: products of 16 rows x 32 columns with bytes of eight plane columns.
#include "scalar_fold_tensor.cuh"

namespace spirea {

// 64 columns a stage, and slots for four of them: with 32 queries that fills the 96 KiB of the smallest processors but
// Turing's, which have 64 KiB, and no copies in the background for which more slots would serve.
constexpr uint32_t STEPS = 2;
constexpr uint32_t SLOTS = TURING ? 2 : 4;

// Adds the products of eight panels with TILES tiles of queries, over a piece of the columns, to `answers`: a warp has
// 32 rows x 16 TILES plane columns of sums in 16 TILES registers.
//
// matrix   panels of shape.quads quads, as chunks, and at least 15 quads of anything behind the last
// planes   [step][tile] of TILE_WORDS words for whole stages, by scalar_fold_planes: zero behind the last quad and the
//          last query
// answers  shape.batch answers of 32 shape.panels words
//
// Block x: group x % tile_groups, panel group x / tile_groups % panel_groups, piece x / tile_groups / panel_groups.
// Shared memory: SLOTS stages. All but one are under way while that is multiplied: 3 x 16 KiB of the matrix a block.
//
// Per byte of the matrix and query: 4 multiply-adds on tensor cores. A step of a warp reads 1 KiB of rows and 512 TILES
// bytes of planes from shared memory for 32 x 32 x 16 TILES multiply-adds. Sums wrap modulo 2^32.
template <uint32_t TILES>
DEVICE void fold_mma(const Words4* matrix, const Words4* planes, uint32_t* answers, const TensorShape& shape) {
    using T = Tiling<8, 8, TILES, STEPS>;
    SHARED(unsigned char, slots);
    const TensorBlock block = T::block(shape);
    const uint32_t lane = threadIdx.x % 32;
    Copies<T> copies(matrix, planes, shape, block);
    uint32_t d[2][2 * TILES][4] = {};

    for (uint32_t i = 0; i < SLOTS - 1; i++) copies.next(slots + i * T::STAGE_BYTES, shape, block);
    uint32_t slot = 0;
    for (uint32_t stage = block.first; stage < block.last; stage++) {
        copy_wait<SLOTS - 2>();
        // Also: every warp is done with the stage before, whose slot is filled next.
        block_barrier();
        copies.next(slots + (slot == 0 ? SLOTS - 1 : slot - 1) * T::STAGE_BYTES, shape, block);
        if (block.panel < shape.panels) {
            const unsigned char* filled = slots + slot * T::STAGE_BYTES;
#pragma unroll
            for (uint32_t step = 0; step < STEPS; step++) {
                uint32_t a[2][4];
                load_rows(a, T::panel(filled), step);
#pragma unroll
                for (uint32_t t = 0; t < TILES; t++) {
                    uint32_t b[2][2];
                    load_matrices(b, T::planes(filled, step) + 4 * TILE_WORDS * t + 16 * lane);
#pragma unroll
                    for (uint32_t half = 0; half < 2; half++) {
                        mma_u8u8(d[half][2 * t], a[half], b[0]);
                        mma_u8u8(d[half][2 * t + 1], a[half], b[1]);
                    }
                }
            }
        }
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
    }
    copy_wait<0>();
    add_answers<TILES>(answers, d[0], 0, shape, block);
    add_answers<TILES>(answers, d[1], 1, shape, block);
}

}  // namespace spirea

using namespace spirea;

// The planes of a batch: thread (x, y) splits the words of four columns of query y.
//
// queries  `batch` queries of `quads` times four words
// planes   as fold_mma says: `padded_quads` quads, the grid's y in queries
// budget: 32 registers
KERNEL(scalar_fold_planes, 256, 6,
       (const Words4* queries, uint32_t* planes, uint32_t quads, uint32_t padded_quads, uint32_t batch)) {
    const uint32_t quad = blockIdx.x * 256 + threadIdx.x, query = blockIdx.y;
    if (quad >= padded_quads) return;
    const bool there = query < batch && quad < quads;
    const Words4 plane = there ? split_planes(queries[(uint64_t)query * quads + quad]) : Words4{0, 0, 0, 0};
    const uint32_t tiles = gridDim.y / TILE_QUERIES, tile = query / TILE_QUERIES;
    // Plane p goes to matrix (j = p / 2, i), row g = 2 q + p % 2, word c.
    const uint32_t i = quad % STEP_QUADS / 4, c = quad % 4, g = 2 * (query % TILE_QUERIES);
    uint32_t* to = planes + ((uint64_t)(quad / STEP_QUADS) * tiles + tile) * TILE_WORDS + i * 32 + g * 4 + c;
    to[0] = plane.x;
    to[4] = plane.y;
    to[64] = plane.z;
    to[68] = plane.w;
}

// budget: 96 registers
// uses: IMMA
KERNEL(scalar_fold_mma_8, 256, 2,
       (const Words4* matrix, const Words4* planes, uint32_t* answers, TensorShape shape)) {
    fold_mma<2>(matrix, planes, answers, shape);
}

// budget: 128 registers
// uses: IMMA
KERNEL(scalar_fold_mma_16, 256, 2,
       (const Words4* matrix, const Words4* planes, uint32_t* answers, TensorShape shape)) {
    fold_mma<4>(matrix, planes, answers, shape);
}

// budget: 224 registers
// uses: IMMA
KERNEL(scalar_fold_mma_32, 256, 1,
       (const Words4* matrix, const Words4* planes, uint32_t* answers, TensorShape shape)) {
    fold_mma<8>(matrix, planes, answers, shape);
}
