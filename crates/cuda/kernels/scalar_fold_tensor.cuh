// What the tensor-core kernels of scalar_fold share: the pipeline that feeds them and how their sums leave.
#pragma once
#include "scalar_fold.cuh"

namespace spirea {

// The arguments of these kernels, as the host passes them.
struct TensorShape {
    uint32_t quads;         // of a panel
    uint32_t panels;
    uint32_t panel_groups;  // of as many panels as a block takes
    uint32_t tile_groups;   // of as many tiles of queries as a block takes
    uint32_t stages;        // of a panel
    uint32_t piece_stages;  // that a block takes
    uint32_t batch;         // queries there are
};

// What a block computes: some panels, of which `panel` is this warp's, times the tiles of `group`, over the stages
// `first` to before `last`. Groups are neighbours, so that they find the panels in the cache.
struct TensorBlock {
    uint32_t panel, group, first, last;
};

// How a kernel cuts its work: a block is WARPS warps with PANELS panels and TILES tiles of queries. A *stage* is what
// one barrier hands over: STEPS steps of these panels and tiles. In its slot of shared memory the panels come first,
// then [step][tile] of the planes.
template <uint32_t WARPS, uint32_t PANELS, uint32_t TILES, uint32_t STEPS>
struct Tiling {
    static constexpr uint32_t THREADS = 32 * WARPS;
    static constexpr uint32_t PANEL_BYTES = STEPS * STEP_QUADS * CHUNKS * 16;
    static constexpr uint32_t STEP_BYTES = TILES * TILE_WORDS * 4;
    static constexpr uint32_t PLANES_AT = PANELS * PANEL_BYTES;
    static constexpr uint32_t STAGE_BYTES = PLANES_AT + STEPS * STEP_BYTES;

    // Warps that share a panel.
    static constexpr uint32_t SHARERS = WARPS / PANELS;
    static_assert(WARPS % PANELS == 0 && STEPS * STEP_QUADS % (4 * SHARERS) == 0, "warps copy equal parts");

    static DEVICE TensorBlock block(const TensorShape& shape) {
        const uint32_t group = blockIdx.x % shape.tile_groups, rest = blockIdx.x / shape.tile_groups;
        const uint32_t first = rest / shape.panel_groups * shape.piece_stages;
        return {rest % shape.panel_groups * PANELS + threadIdx.x / 32 / SHARERS, group, first,
                min(first + shape.piece_stages, shape.stages)};
    }

    // This warp's panel in a slot.
    static DEVICE const unsigned char* panel(const unsigned char* slot) {
        return slot + threadIdx.x / 32 / SHARERS * PANEL_BYTES;
    }
    static DEVICE const unsigned char* planes(const unsigned char* slot, uint32_t step) {
        return slot + PLANES_AT + step * STEP_BYTES;
    }
};

// The copies of stage after stage to shared memory.
template <class T>
struct Copies {
    static constexpr uint32_t STEP_CHUNKS = T::STEP_BYTES / 16;
    static constexpr uint32_t STEPS = (T::STAGE_BYTES - T::PLANES_AT) / T::STEP_BYTES;

    // The next stage, and where this thread's part of it is.
    uint32_t stage;
    const Words4 *panel, *planes;
    uint32_t panel_to;

    // Warps that share a panel take turns at 512 bytes of it.
    DEVICE Copies(const Words4* matrix, const Words4* planes, const TensorShape& shape, const TensorBlock& block)
        : stage(block.first) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / CHUNKS, chunk = lane % CHUNKS;
        const uint64_t quads = (uint64_t)block.panel * shape.quads + (uint64_t)stage * (STEPS * STEP_QUADS);
        panel = matrix + quads * CHUNKS + warp % T::SHARERS * 32 + lane;
        panel_to = warp / T::SHARERS * T::PANEL_BYTES + warp % T::SHARERS * 512 +
                   (quad * CHUNKS + (chunk ^ 2 * quad)) * 16;
        this->planes = planes + ((uint64_t)stage * STEPS * shape.tile_groups + block.group) * STEP_CHUNKS;
    }

    // Begins the copies of the next stage to `slot` and ends their group: an empty one behind the last stage, so that
    // groups are stages. Chunk k of quad q goes to place k ^ 2 (q % 4) of its quad: the eight lanes that `load_rows`
    // serves at once then read different banks.
    //
    // Behind a panel's last quad comes the next panel, or the room behind the matrix: their planes are zero.
    DEVICE void next(unsigned char* slot, const TensorShape& shape, const TensorBlock& block) {
        if (stage < block.last) {
            if (block.panel < shape.panels) {
#pragma unroll
                for (uint32_t i = 0; i < STEPS * STEP_QUADS / 4; i += T::SHARERS) {
                    copy_async(slot + panel_to + 512 * i, panel + 32 * i);
                }
            }
            const uint32_t stride = shape.tile_groups * STEP_CHUNKS;
#pragma unroll
            for (uint32_t i = 0; i < STEPS * STEP_CHUNKS; i += T::THREADS) {
                const uint32_t at = i + threadIdx.x;
                if (i + T::THREADS <= STEPS * STEP_CHUNKS || at < STEPS * STEP_CHUNKS) {
                    copy_async(slot + T::PLANES_AT + 16 * at,
                               planes + (uint64_t)(at / STEP_CHUNKS) * stride + at % STEP_CHUNKS);
                }
            }
            panel += STEPS * STEP_QUADS * CHUNKS;
            planes += (uint64_t)STEPS * stride;
        }
        stage++;
        copy_commit();
    }
};

// The 32 rows x 32 columns of a panel in a step, as operands of two products of 16 rows, its *halves*. With
// g = lane / 4 and c = lane % 4, rows 4g and 4g + 1 are rows g and g + 8 of half 0, 4g + 2 and 4g + 3 of half 1: so a
// load is 16 bytes, and the sums of a lane are of rows side by side.
DEVICE void load_rows(uint32_t (&a)[2][4], const unsigned char* panel, uint32_t step) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t quad = step * STEP_QUADS + 4 * i + c;
        const Words4 rows = *reinterpret_cast<const Words4*>(panel + (quad * CHUNKS + (g ^ 2 * c)) * 16);
        a[0][2 * i] = rows.x;
        a[0][2 * i + 1] = rows.y;
        a[1][2 * i] = rows.z;
        a[1][2 * i + 1] = rows.w;
    }
}

// Adds the sums of a half of a panel to the answers: d[2t + j] is the fragment with matrices (j, .) of tile t.
template <uint32_t TILES>
DEVICE void add_answers(uint32_t* answers, const uint32_t (&d)[2 * TILES][4], uint32_t half, const TensorShape& shape,
                        const TensorBlock& block) {
    if (block.panel >= shape.panels) return;
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
#pragma unroll
    for (uint32_t t = 0; t < TILES; t++) {
        const uint32_t query = (block.group * TILES + t) * TILE_QUERIES + c;
        if (query >= shape.batch) continue;
        uint32_t* to = answers + ((uint64_t)query * shape.panels + block.panel) * PANEL_ROWS + 4 * g + 2 * half;
        const uint32_t(&low)[4] = d[2 * t];
        const uint32_t(&high)[4] = d[2 * t + 1];
        atomic_add(to, join_planes(low[0], low[1], high[0], high[1]));
        atomic_add(to + 1, join_planes(low[2], low[3], high[2], high[3]));
    }
}

}  // namespace spirea
