// From polynomials, whose slots lie next to each other, to the product's operands, whose terms do, and back.
// docs/kernels/cuda-product.md.
#include "product.cuh"

using namespace spirea;

// Threads of a block.
constexpr uint32_t THREADS = 256;
// Words from one row of a tile in shared memory to the next: a column's words lie in different banks.
constexpr uint32_t PITCH = 33;

// One step in 32 slots of a vector: a row, or a query's a or b. Global memory is read 32 slots at a time and written as
// whole steps, lines of 128 bytes either way.
struct Step {
    uint32_t first_term, terms, words_of_term;

    // All on their way before the first is used.
    template <class Prepare>
    DEVICE void load(uint32_t* tile, const uint32_t* values, Prepare prepare) const {
        constexpr uint32_t WARPS = THREADS / 32;
        const uint32_t slot = threadIdx.x % 32, warp = threadIdx.x / 32;
        uint32_t words[STEP / WARPS];
        #pragma unroll
        for (uint32_t i = 0; i < STEP / WARPS; i++) {
            const uint32_t term = first_term + warp + i * WARPS;
            words[i] = term < terms ? load_once(values + (uint64_t)term * words_of_term + slot) : 0;
        }
        #pragma unroll
        for (uint32_t i = 0; i < STEP / WARPS; i++) tile[(warp + i * WARPS) * PITCH + slot] = prepare(words[i]);
    }
};

// How a residue's parts lie in the bytes of a word: 8 bits each.
struct OctetPart {
    DEVICE static uint32_t spread(uint32_t x) { return x; }
};
// 7 bits each, of residues below 2^28.
struct SeptetPart {
    DEVICE static uint32_t spread(uint32_t x) {
        return (x & 0x7f) | (x << 1 & 0x7f00) | (x << 2 & 0x7f0000) | (x << 3 & 0x7f000000);
    }
};
// A part of the four residues of a slot from `term` on: two rounds of `prmt`.
template <class Part>
DEVICE uint32_t part_of(const uint32_t* tile, uint32_t slot, uint32_t term, uint32_t part) {
    const uint32_t* const words = tile + term * PITCH + slot;
    const uint32_t bytes = part | (part + 4) << 4;
    const uint32_t first = permute_bytes(Part::spread(words[0]), Part::spread(words[PITCH]), bytes);
    const uint32_t second = permute_bytes(Part::spread(words[2 * PITCH]), Part::spread(words[3 * PITCH]), bytes);
    return permute_bytes(first, second, 0x5410);
}

// Where a step's quads go in each form: `row` of a tile, 8 of them, `columns` of the tiles of a and b, 16 of them.
struct WordQuads {
    DEVICE static Words4 row(const uint32_t* tile, uint32_t slot, uint32_t quad) {
        const uint32_t* const words = tile + 4 * quad * PITCH + slot;
        return {words[0], words[PITCH], words[2 * PITCH], words[3 * PITCH]};
    }
    DEVICE static Words4 columns(const uint32_t* a, const uint32_t* b, uint32_t slot, uint32_t quad) {
        return row(quad < STEP_QUADS ? a : b, slot, quad % STEP_QUADS);
    }
    DEVICE static uint32_t quads_of_columns(uint32_t queries) { return 2 * STEP_QUADS * queries; }
    DEVICE static uint32_t place_of_columns(uint32_t query, uint32_t quad) {
        return 2 * STEP_QUADS * query + (quad < STEP_QUADS ? quad : STEP_QUADS + place(1, quad % STEP_QUADS));
    }
};
template <class Part>
struct PartQuads {
    DEVICE static Words4 row(const uint32_t* tile, uint32_t slot, uint32_t quad) {
        const uint32_t part = quad / 4 * 2, term = quad % 4 * 4;
        return {part_of<Part>(tile, slot, term, part), part_of<Part>(tile, slot, term + 16, part),
                part_of<Part>(tile, slot, term, part + 1), part_of<Part>(tile, slot, term + 16, part + 1)};
    }
    DEVICE static Words4 columns(const uint32_t* a, const uint32_t* b, uint32_t slot, uint32_t quad) {
        const uint32_t part = quad / 4, term = quad % 4 * 4;
        return {part_of<Part>(a, slot, term, part), part_of<Part>(b, slot, term, part),
                part_of<Part>(a, slot, term + 16, part), part_of<Part>(b, slot, term + 16, part)};
    }
    DEVICE static uint32_t quads_of_columns(uint32_t queries) { return 2 * STEP_QUADS * queries; }
    DEVICE static uint32_t place_of_columns(uint32_t query, uint32_t quad) {
        return 2 * STEP_QUADS * query + place(query, quad);
    }
};
// Columns for warpgroups: 16 terms of a part, as in `product_warpgroups.cu`. Quads of a and b alternate.
template <class Part>
struct CoreQuads : PartQuads<Part> {
    DEVICE static Words4 columns(const uint32_t* a, const uint32_t* b, uint32_t slot, uint32_t quad) {
        const uint32_t* const tile = quad % 2 == 0 ? a : b;
        const uint32_t part = quad / 4, term = quad / 2 % 2 * 16;
        return {part_of<Part>(tile, slot, term, part), part_of<Part>(tile, slot, term + 4, part),
                part_of<Part>(tile, slot, term + 8, part), part_of<Part>(tile, slot, term + 12, part)};
    }
    DEVICE static uint32_t quads_of_columns(uint32_t queries) { return core_quads(queries); }
    DEVICE static uint32_t place_of_columns(uint32_t query, uint32_t quad) {
        const uint32_t column = 2 * query + quad % 2;
        return column / CORE_COLUMNS * CORE_QUADS + quad / 2 * CORE_COLUMNS + column % CORE_COLUMNS;
    }
};

// Rows of the plain matrix, as they come: [row][term][polynomial of `words` words], of which the launch takes the
// limb that `values` points into, to plain[slot][step][row of all][8 quads], times 2^64.
//
//     block    x row of the launch, y step, z 32 slots
//     shared   32 x 33 words
template <class Quads>
DEVICE void transpose_rows(uint32_t* tile, const uint32_t* values, Words4* plain, Prime prime, uint32_t first_row,
                           uint32_t rows, uint32_t terms, uint32_t words) {
    const uint32_t row = first_row + blockIdx.x, step = blockIdx.y, steps = gridDim.y, first_slot = blockIdx.z * 32;
    // 2^96 mod q, so that one multiplication leaves 2^64.
    const uint32_t factor = montgomery(prime.square, prime.square, prime);
    Step{step * STEP, terms, words}.load(tile, values + (uint64_t)blockIdx.x * terms * words + first_slot,
                                         [&](uint32_t value) { return montgomery(value, factor, prime); });
    block_barrier();
    const uint32_t quad = threadIdx.x % STEP_QUADS, slot = threadIdx.x / STEP_QUADS;
    plain += (((uint64_t)(first_slot + slot) * steps + step) * rows + row) * STEP_QUADS;
    plain[place(row, quad)] = Quads::row(tile, slot, quad);
}

// Leaves of all queries: query i's lie at address queries[i], [leaf][a, b][polynomial of `words` words]; the launch
// takes `first` and the words after it of each polynomial to leaves[slot][step][column][8 quads].
//
//     block    x query, y step, z 32 slots
//     shared   2 x 32 x 33 words
template <class Quads>
DEVICE void transpose_columns(uint32_t* tiles, const uint64_t* queries, Words4* leaves, uint32_t terms,
                              uint32_t words, uint32_t first) {
    constexpr uint32_t QUADS = 2 * STEP_QUADS;
    const uint32_t query = blockIdx.x, step = blockIdx.y, steps = gridDim.y, first_slot = blockIdx.z * 32;
    const uint32_t of_step_quads = Quads::quads_of_columns(gridDim.x);
    const uint32_t* const values = reinterpret_cast<const uint32_t*>(queries[query]) + first + first_slot;
    uint32_t *const a = tiles, *const b = tiles + STEP * PITCH;
    const Step of_step{step * STEP, terms, 2 * words};
    of_step.load(a, values, [](uint32_t value) { return value; });
    of_step.load(b, values + words, [](uint32_t value) { return value; });
    block_barrier();
    const uint32_t quad = threadIdx.x % QUADS;
    #pragma unroll
    for (uint32_t slot = threadIdx.x / QUADS; slot < 32; slot += THREADS / QUADS) {
        Words4* const to = leaves + ((uint64_t)(first_slot + slot) * steps + step) * of_step_quads;
        to[Quads::place_of_columns(query, quad)] = Quads::columns(a, b, slot, quad);
    }
}

// budget transpose_rows_words: 48 registers
// budget transpose_rows_octets: 48 registers
// budget transpose_rows_septets: 48 registers
#define ROWS(name, Quads)                                                                                  \
    KERNEL(transpose_rows_##name, THREADS, 4,                                                              \
           (const uint32_t* values, Words4* plain, Prime prime, uint32_t first_row, uint32_t rows,         \
            uint32_t terms, uint32_t words)) {                                                             \
        SHARED(uint32_t, tile);                                                                            \
        transpose_rows<Quads>(tile, values, plain, prime, first_row, rows, terms, words);                  \
    }
ROWS(words, WordQuads)
ROWS(octets, PartQuads<OctetPart>)
ROWS(septets, PartQuads<SeptetPart>)
#undef ROWS

// budget transpose_columns_words: 48 registers
// budget transpose_columns_octets: 48 registers
// budget transpose_columns_septets: 48 registers
// budget transpose_columns_octet_cores: 48 registers
// budget transpose_columns_septet_cores: 48 registers
#define COLUMNS(name, Quads)                                                                               \
    KERNEL(transpose_columns_##name, THREADS, 4,                                                           \
           (const uint64_t* queries, Words4* leaves, uint32_t terms, uint32_t words, uint32_t first)) {    \
        SHARED(uint32_t, tile);                                                                            \
        transpose_columns<Quads>(tile, queries, leaves, terms, words, first);                              \
    }
COLUMNS(words, WordQuads)
COLUMNS(octets, PartQuads<OctetPart>)
COLUMNS(septets, PartQuads<SeptetPart>)
COLUMNS(octet_cores, CoreQuads<OctetPart>)
COLUMNS(septet_cores, CoreQuads<SeptetPart>)
#undef COLUMNS

// Sums of the product, [slot][column][row_stride], to ciphertexts: query i's at address results[i], [row][a, b][words].
// The launch has `row_count` rows from `first_row` on, and slots that are the polynomials' words `first` and after.
//
//     block    x 32 rows, y column, two a query, z 32 slots
//     shared   32 x 33 words
// budget: 48 registers
KERNEL(transpose_sums, THREADS, 4,
       (const uint64_t* results, const uint32_t* sums, uint32_t first_row, uint32_t row_count, uint32_t row_stride,
        uint32_t words, uint32_t first)) {
    SHARED(uint32_t, tile);
    const uint32_t tile_row = blockIdx.x * 32, column = blockIdx.y, first_slot = blockIdx.z * 32;
    const uint32_t columns = gridDim.y;
    sums += ((uint64_t)first_slot * columns + column) * row_stride + tile_row;
    const uint32_t rows = min(32u, row_count - tile_row);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t values[32 * 32 / THREADS];
    #pragma unroll
    for (uint32_t i = 0; i < 32 * 32 / THREADS; i++) {
        const uint32_t slot = warp + i * (THREADS / 32);
        values[i] = lane < rows ? sums[(uint64_t)slot * columns * row_stride + lane] : 0;
    }
    #pragma unroll
    for (uint32_t i = 0; i < 32 * 32 / THREADS; i++) tile[(warp + i * (THREADS / 32)) * PITCH + lane] = values[i];
    block_barrier();
    uint32_t* const to = reinterpret_cast<uint32_t*>(results[column / 2]) + (uint64_t)(column % 2) * words + first +
                         first_slot;
    for (uint32_t row = warp; row < rows; row += THREADS / 32) {
        to[(uint64_t)(first_row + tile_row + row) * 2 * words + lane] = tile[lane * PITCH + row];
    }
}
