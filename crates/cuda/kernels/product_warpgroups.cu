// architectures: 90a
// The product for many queries by Hopper's tensor cores, whose products run in the background.
//
// A block takes 64 rows and 64 columns at a time, a and b of 32 queries; each of its two warpgroups has half of the
// columns. The rows come through registers, in the order in which quads hold them, and alternate between two sets:
// while the products of a step run, the rows of the next are loaded. The columns are read in shared memory, in cores.
// Products of parts i and j go to diagonal i + j, as in `product_octets`: 7 diagonals of 16 sums a thread.
#include "product.cuh"

namespace spirea {

constexpr uint32_t TEAM = 128, TEAMS = 2;  // threads of a warpgroup, warpgroups of a block
constexpr uint32_t TILE_ROWS = 64, WIDTH = 64, TEAM_WIDTH = WIDTH / TEAMS;
constexpr uint32_t PARTS = 4, DIAGONALS = 7;
constexpr uint32_t STEP_CORES = WIDTH / CORE_COLUMNS * CORE_QUADS;  // quads of a step of columns

// The sum of the diagonals, each 2^BITS times the one before: at most 4 of (2^BITS - 1)^2 a term, below 2^27 in 512
// terms. Of the sum the lower part is below 2^53, and below 512 q^2 like the whole: below 2^32 q for every q.
template <uint32_t BITS>
DEVICE uint32_t sum_of_diagonals(const uint32_t (&d)[DIAGONALS], Prime prime) {
    uint64_t low = 0, high = 0;
#pragma unroll
    for (uint32_t i = 0; i < DIAGONALS; i++) {
        if (BITS * i < 32)
            low += (uint64_t)d[i] << BITS * i;
        else
            high += (uint64_t)d[i] << (BITS * i - 32);
    }
    return reduce(low, high, prime);
}

// The copies of a block in their order: its tiles of rows, step by step; with the first tile come the columns.
struct Arrivals {
    const Words4 *rows, *columns;  // of the panel's first step
    Words4 *stages, *panel_columns;
    uint32_t row_count, quads_of_rows, quads_of_columns, block_quads, panel, turns;
    uint32_t turn, step, row;

    DEVICE void next() {
        if (turn < turns) {
            copy_quads(stages + turn % STAGES * (TILE_ROWS * STEP_QUADS),
                       rows + (uint64_t)step * quads_of_rows + row * STEP_QUADS,
                       min(TILE_ROWS, row_count - row) * STEP_QUADS);
            if (turn < panel)
                copy_quads(panel_columns + step * STEP_CORES, columns + (uint64_t)step * quads_of_columns,
                           block_quads);
            if (++step == panel) step = 0, row += TILE_ROWS;
        }
        turn++;
        copy_commit();
    }
};

// Parts j of a lane's rows g and g + 8 of its warp's 16, as an operand.
DEVICE void load_rows(uint32_t (&parts)[PARTS][4], const Words4* rows) {
    const uint32_t lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
#pragma unroll
        for (uint32_t pair = 0; pair < 2; pair++) {
            const Words4 quad = quad_of(rows, g + 8 * i, lane % 4 + 4 * pair);
            parts[2 * pair][i] = quad.x, parts[2 * pair][i + 2] = quad.y;
            parts[2 * pair + 1][i] = quad.z, parts[2 * pair + 1][i + 2] = quad.w;
        }
    }
}

// Layouts as in `multiply`, but for the columns; a block has one slot, WIDTH columns and all rows of the launch.
//
//     shared   [panel][groups of columns][CORE_QUADS], then STAGES times [TILE_ROWS][8 quads]
template <uint32_t BITS>
DEVICE void multiply_by_warpgroups(Words4* shared, const Words4* plain, const Words4* leaves, uint32_t* sums,
                                   const Product& product) {
    const uint32_t blocks = (product.columns + WIDTH - 1) / WIDTH;
    const uint32_t slot = blockIdx.x / blocks, first_column = blockIdx.x % blocks * WIDTH;
    const uint32_t columns = min(WIDTH, product.columns - first_column);
    const uint32_t step_quads = core_quads(product.columns / 2);
    plain += ((uint64_t)slot * product.steps * product.rows + product.first_row) * STEP_QUADS;
    leaves += (uint64_t)slot * product.steps * step_quads + first_column / CORE_COLUMNS * CORE_QUADS;
    sums += ((uint64_t)slot * product.columns + first_column) * product.row_stride;

    const uint32_t team = threadIdx.x / TEAM, warp = threadIdx.x % TEAM / 32, lane = threadIdx.x % 32;
    Words4 *const panel_columns = shared, *const stages = shared + product.panel * STEP_CORES;
    const Words4* const team_columns = panel_columns + team * (TEAM_WIDTH / CORE_COLUMNS * CORE_QUADS);
    const Words4* const warp_rows = stages + 16 * warp * STEP_QUADS;
    const uint32_t tiles = (product.row_count + TILE_ROWS - 1) / TILE_ROWS;

    for (uint32_t start = 0; start < product.steps; start += product.panel) {
        const uint32_t panel = min(product.panel, product.steps - start);
        Arrivals arrivals{plain + (uint64_t)start * product.rows * STEP_QUADS,
                          leaves + (uint64_t)start * step_quads,
                          stages,
                          panel_columns,
                          product.row_count,
                          product.rows * STEP_QUADS,
                          step_quads,
                          (columns + CORE_COLUMNS - 1) / CORE_COLUMNS * CORE_QUADS,
                          panel,
                          tiles * panel,
                          0, 0, 0};
        for (uint32_t i = 1; i < STAGES; i++) arrivals.next();

        uint32_t turn = 0;
        for (uint32_t tile = 0; tile < tiles; tile++) {
            uint32_t diagonals[DIAGONALS][TEAM_WIDTH / 8][4] = {};
            uint32_t parts[2][PARTS][4] = {};
            const auto add = [&](uint32_t (&parts)[PARTS][4], uint32_t step) {
                copy_wait<STAGES - 2>();
                multiplier_fence();
                // After it everyone's copies are there, and the stage of the turn before is free.
                block_barrier();
                arrivals.next();
                warpgroup_wait<1>(parts);
                load_rows(parts, warp_rows + turn % STAGES * (TILE_ROWS * STEP_QUADS));
                warpgroup_fence();
                const Words4* const cores = team_columns + step * STEP_CORES;
#pragma unroll
                for (uint32_t j = 0; j < PARTS; j++) {
#pragma unroll
                    for (uint32_t i = 0; i < PARTS; i++)
                        warpgroup_mma_u8u8(diagonals[i + j], parts[j],
                                           columns_descriptor(cores + i * (2 * CORE_COLUMNS), 16 * CORE_COLUMNS,
                                                              16 * CORE_QUADS));
                }
                warpgroup_commit();
                turn++;
            };
            for (uint32_t step = 0; step < panel; step += 2) {
                add(parts[0], step);
                if (step + 1 < panel) add(parts[1], step + 1);
            }
#pragma unroll
            for (uint32_t i = 0; i < DIAGONALS; i++) warpgroup_finish(diagonals[i]);
            const uint32_t first = tile * TILE_ROWS + 16 * warp + lane / 4;
            const Sums to{sums + first, product.row_stride, columns, start == 0, product.prime};
#pragma unroll
            for (uint32_t n = 0; n < TEAM_WIDTH / 8; n++) {
#pragma unroll
                for (uint32_t i = 0; i < 4; i++) {
                    uint32_t d[DIAGONALS];
#pragma unroll
                    for (uint32_t k = 0; k < DIAGONALS; k++) d[k] = diagonals[k][n][i];
                    const uint32_t value = sum_of_diagonals<BITS>(d, product.prime);
                    if (first + 8 * (i / 2) < product.row_count)
                        to.put(team * TEAM_WIDTH + 8 * n + 2 * (lane % 4) + i % 2, 8 * (i / 2), value);
                }
            }
        }
        block_barrier();
    }
}

}  // namespace spirea

using namespace spirea;

// Layouts and blocks as in `multiply_by_warpgroups`; 16 byte products a product of residues.
// budget: 255 registers
// uses: IGMMA
KERNEL(product_octets_warpgroups, 256, 1,
       (const Words4* plain, const Words4* leaves, uint32_t* sums, Product product)) {
    SHARED(Words4, shared);
    multiply_by_warpgroups<8>(shared, plain, leaves, sums, product);
}

// The same with parts of 7 bits.
// budget: 255 registers
// uses: IGMMA
KERNEL(product_septets_warpgroups, 256, 1,
       (const Words4* plain, const Words4* leaves, uint32_t* sums, Product product)) {
    SHARED(Words4, shared);
    multiply_by_warpgroups<7>(shared, plain, leaves, sums, product);
}
