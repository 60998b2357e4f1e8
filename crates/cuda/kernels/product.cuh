// Products of plaintext polynomials and leaves (steps `pack` and `poly_fold`): for each slot of each prime a matrix
// product of its own, [rows x terms] times [terms x columns], where a row is one of the plain matrix, a term one of
// its columns and a leaf, and a column is a or b of one query's leaves. docs/kernels/cuda-product.md.
//
// Both operands lie slot by slot, [slot][step][vector][8 quads]. A *step* is 32 terms; those of one vector (a row or a
// column) take 128 bytes, eight *quads* of four words. As words, quad q of vector v has terms 4q to 4q + 3 and lies at
// place(v, q). Else residues are four parts of a byte, a word has one part of four terms, and quads are what a lane of
// `mma` loads together, with c = q % 4:
//
//     of row v, at place(v, q), with p = q / 4:    parts 2p and 2p + 1, each of terms 4c to 4c + 3 and 16 + 4c and after
//     of query v, 16 quads of a and b together, at place(v, q), with p = q / 4:
//                                                  part p of terms 4c to 4c + 3 of a, of b, of terms 16 + 4c of a, of b
//
// Where warpgroups multiply (`product_warpgroups.cu`), columns lie in *cores* instead, in groups of eight, one after
// another: [4 parts][terms 0 to 15, 16 to 31][8 columns][16 bytes].
//
// Terms past the last one are zeros in both. The rows carry the factor 2^64 that two reductions take away.
#pragma once
#include "modular.cuh"

namespace spirea {

constexpr uint32_t STEP = 32;        // terms of a step
constexpr uint32_t STEP_QUADS = 8;   // quads of a step
constexpr uint32_t GROUP = 16;       // columns of a warp
constexpr uint32_t STAGES = 4;       // steps of rows in shared memory: one in use, three on their way
constexpr uint32_t MOST_PANEL = 16;  // steps of columns in shared memory at most: the bounds are for 512 terms

// Lanes that read the same quad of vectors next to each other find the even and the odd ones in different banks.
DEVICE uint32_t place(uint32_t vector, uint32_t quad) { return quad ^ (vector & 1) << 2; }
DEVICE const Words4& quad_of(const Words4* vectors, uint32_t vector, uint32_t quad) {
    return vectors[vector * STEP_QUADS + place(vector, quad)];
}

// What a launch multiplies (`ring/product/launch.rs`).
struct Product {
    Prime prime;
    uint32_t companion;      // floor(2^32 / q)
    uint32_t quads;          // quads of terms that a sum of 64 bits takes between folds
    uint32_t rows;           // of the matrix: the stride of a step
    uint32_t first_row;      // of the launch, a multiple of 8
    uint32_t row_count;      // of the launch
    uint32_t row_stride;     // of the sums, a multiple of 8 that is not less than row_count
    uint32_t columns;        // two a query
    uint32_t steps;          // of 32 terms
    uint32_t panel;          // steps whose columns are in shared memory together, at most MOST_PANEL
    uint32_t column_groups;  // warps side by side, 16 columns each; the others are below each other
};

// Quads of a group of columns in cores, and of all queries' columns in a step: groups are whole.
constexpr uint32_t CORE_COLUMNS = 8, CORE_QUADS = 64;
DEVICE uint32_t core_quads(uint32_t queries) {
    return (2 * queries + CORE_COLUMNS - 1) / CORE_COLUMNS * CORE_QUADS;
}

struct alignas(8) Words2 {
    uint32_t x, y;
};

// Where a warp's sums go. Those of the first panel are stored, those of later ones added.
struct Sums {
    uint32_t* group;  // [16 columns][row_stride] from the warp's first row on
    uint32_t row_stride, columns;
    bool first;
    Prime prime;

    DEVICE void put(uint32_t column, uint32_t row, uint32_t value) const {
        if (column >= columns) return;
        uint32_t& to = group[(uint64_t)column * row_stride + row];
        to = first ? value : add(to, value, prime);
    }
    DEVICE void put(uint32_t column, uint32_t even_row, Words2 values) const {
        if (column >= columns) return;
        Words2& to = *reinterpret_cast<Words2*>(group + (uint64_t)column * row_stride + even_row);
        if (!first) {
            const Words2 before = to;
            values = {add(before.x, values.x, prime), add(before.y, values.y, prime)};
        }
        to = values;
    }
};

// (high 2^32 + low) 2^-64 mod q, below q, for low below 2^32 q and high below 2^32 (q - 1).
DEVICE uint32_t reduce(uint64_t low, uint64_t high, Prime prime) {
    return montgomery(high + montgomery(low, prime), prime);
}

// Quads from global to shared memory by all threads of the block.
DEVICE void copy_quads(Words4* to, const Words4* from, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) copy_async(to + i, from + i);
}

// One slot, 16 columns a column group, all rows of the launch. The columns' terms lie in shared memory, `panel` steps
// at a time, and the rows stream past them, from DRAM once for every block of columns: a tile of rows, a step.
// `Tile` is how a warp multiplies: its rows are Tile::OCTETS times 8, its columns 16. Of rows and columns that do not
// exist it multiplies what lies there, and stores nothing.
//
//     plain    [slots of the launch][steps][rows][8 quads]
//     leaves   [slots of the launch][steps][columns][8 quads]
//     sums     [slots of the launch][columns][row_stride], below q
//     block    slot * blocks of columns + block of columns
//     shared   [panel][16 column_groups][8 quads], then STAGES times [rows of the block's warps][8 quads]
template <class Tile>
DEVICE void multiply(Words4* shared, const Words4* plain, const Words4* leaves, uint32_t* sums,
                     const Product& product) {
    const uint32_t width = product.column_groups * GROUP, blocks = (product.columns + width - 1) / width;
    const uint32_t slot = blockIdx.x / blocks, first_column = blockIdx.x % blocks * width;
    const uint32_t columns = min(width, product.columns - first_column);
    plain += ((uint64_t)slot * product.steps * product.rows + product.first_row) * STEP_QUADS;
    leaves += ((uint64_t)slot * product.steps * product.columns + first_column) * STEP_QUADS;
    sums += ((uint64_t)slot * product.columns + first_column) * product.row_stride;

    const uint32_t warp = threadIdx.x / 32, first_of_group = warp % product.column_groups * GROUP;
    const uint32_t group_columns = columns - min(columns, first_of_group);
    const uint32_t warp_row = warp / product.column_groups * Tile::OCTETS * 8;
    const uint32_t height = blockDim.x / 32 / product.column_groups * Tile::OCTETS * 8;
    const uint32_t tiles = (product.row_count + height - 1) / height;
    Words4 *const panel_columns = shared, *const stages = shared + product.panel * width * STEP_QUADS;

    for (uint32_t start = 0; start < product.steps; start += product.panel) {
        const uint32_t panel = min(product.panel, product.steps - start), turns = tiles * panel;
        for (uint32_t step = 0; step < panel; step++) {
            copy_quads(panel_columns + step * width * STEP_QUADS,
                       leaves + (uint64_t)(start + step) * product.columns * STEP_QUADS, columns * STEP_QUADS);
        }
        // The next step of rows on its way, an empty group after the last one.
        uint32_t asked = 0, asked_row = 0, asked_step = 0;
        const auto ask = [&] {
            if (asked < turns) {
                copy_quads(stages + asked % STAGES * height * STEP_QUADS,
                           plain + ((uint64_t)(start + asked_step) * product.rows + asked_row) * STEP_QUADS,
                           min(height, product.row_count - asked_row) * STEP_QUADS);
                if (++asked_step == panel) asked_step = 0, asked_row += height;
            }
            asked++;
            copy_commit();
        };
        for (uint32_t i = 1; i < STAGES; i++) ask();

        uint32_t turn = 0;
        for (uint32_t row = warp_row; turn < turns; row += height) {
            const uint32_t rows = product.row_count - min(product.row_count, row);
            const uint32_t octets = min(Tile::OCTETS, (rows + 7) / 8);
            Tile tile;
            for (uint32_t step = 0; step < panel; step++, turn++) {
                copy_wait<STAGES - 2>();
                // After it everyone's copies are there, and the stage of the turn before is free.
                block_barrier();
                ask();
                if (octets == 0 || group_columns == 0) continue;
                tile.add(panel_columns + (step * width + first_of_group) * STEP_QUADS,
                         stages + (turn % STAGES * height + warp_row) * STEP_QUADS, group_columns, product);
            }
            if (octets == 0 || group_columns == 0) continue;
            const Sums to{sums + (uint64_t)first_of_group * product.row_stride + row, product.row_stride,
                          group_columns, start == 0, product.prime};
            tile.put(to, octets, product.prime);
        }
        block_barrier();
    }
}

}  // namespace spirea
