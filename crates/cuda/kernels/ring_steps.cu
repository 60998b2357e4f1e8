// Substitutions and external products, a kernel an operation: residues, recombination, terms, products. More blocks
// than the kernels of `ring_stages.cu` have, for where the second-level cache holds what goes between them (GPIR,
// section 4).
//
// Items are nodes, rotated ciphertexts or games of queries; [item] is query by query. Between the operations:
//     residues  [item][source][limb][N]    coefficients, scaled and shifted
//     fields    [item][row][N]             of digits; the residues themselves where the gadget's digits are residues
//     terms     [item][row][limb][N]       digits' values, in fragments
#include "ring.cuh"

namespace spirea {

template <uint32_t LOG, class Source>
DEVICE void residues_kernel(const Source& source, uint32_t limb, uint32_t* to, const RingTables& tables,
                            const Decomposition& decomposition, uint32_t* exchange) {
    uint32_t x[16];
    load_residues<Ntt<LOG>>(x, source, limb, tables, decomposition, exchange);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) to[Ntt<LOG>::THREADS * i + threadIdx.x] = x[i];
}

template <uint32_t LOG, class Source>
DEVICE void terms_kernel(const Source& source, const uint32_t* fields, uint32_t digit_number, uint32_t limb,
                         uint32_t* to, const RingTables& tables, const Decomposition& decomposition,
                         uint32_t* exchange) {
    using N = Ntt<LOG>;
    const Prime p = tables.primes[limb];
    const Digit& digit = decomposition.digits[digit_number];
    uint32_t x[16];
    if (digit.own == limb) {
        load_own<N>(x, source, limb, p, exchange);
    } else {
        const uint32_t lift = digit.lift[limb];
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = fields[N::THREADS * i + threadIdx.x] + lift;
        N::template forward<Shoup>(x, exchange, tables.forward + limb * N::TABLE, p);
    }
    Words4* const quadruples = reinterpret_cast<Words4*>(to);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
        quadruples[fragment(4 * threadIdx.x + i)] = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
}

// The sums over `rows` rows of terms times key, at the four places of quadruple `number` of a limb.
DEVICE void sum_rows(uint32_t (&a)[4], uint32_t (&b)[4], const uint32_t* terms, const uint32_t* key, uint32_t rows,
                     uint32_t limb, uint32_t number, Prime p, const RingTables& tables) {
    const uint32_t of_polynomial = (tables.limbs << tables.log_degree) / 4;
    const uint32_t at = (limb << tables.log_degree) / 4 + fragment(number);
    const Words4* term = reinterpret_cast<const Words4*>(terms) + at;
    const Words4* factor = reinterpret_cast<const Words4*>(key) + at;
    uint64_t sums_a[4] = {}, sums_b[4] = {};
    for (uint32_t row = 0; row < rows; ++row) {
        const Words4 t = *term, ka = factor[0], kb = factor[of_polynomial];
        sums_a[0] = multiply_add_wide(t.x, ka.x, sums_a[0]);
        sums_a[1] = multiply_add_wide(t.y, ka.y, sums_a[1]);
        sums_a[2] = multiply_add_wide(t.z, ka.z, sums_a[2]);
        sums_a[3] = multiply_add_wide(t.w, ka.w, sums_a[3]);
        sums_b[0] = multiply_add_wide(t.x, kb.x, sums_b[0]);
        sums_b[1] = multiply_add_wide(t.y, kb.y, sums_b[1]);
        sums_b[2] = multiply_add_wide(t.z, kb.z, sums_b[2]);
        sums_b[3] = multiply_add_wide(t.w, kb.w, sums_b[3]);
        if (row % LAZY_PRODUCTS == LAZY_PRODUCTS - 1) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                sums_a[i] = settled(sums_a[i], p);
                sums_b[i] = settled(sums_b[i], p);
            }
        }
        term += of_polynomial;
        factor += 2 * of_polynomial;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        a[i] = montgomery(settled(sums_a[i], p), p);
        b[i] = montgomery(settled(sums_b[i], p), p);
    }
}

// The products of one thread's four values of a substitution, of which a `Result` makes what is wanted.
template <class Result>
DEVICE void substituted_kernel(const Substituted* queries, const Substitution& substitution, const uint32_t* terms,
                               const RingTables& tables, const Decomposition& decomposition) {
    const uint32_t log = tables.log_degree, thread = blockIdx.x * 128 + threadIdx.x;
    const uint32_t limb = thread >> (log - 2), number = thread & ((1u << (log - 2)) - 1), rows = decomposition.levels;
    const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;
    const Substituted query = queries[blockIdx.z];
    const Prime p = tables.primes[limb];
    uint32_t a[4], b[4];
    sum_rows(a, b, terms + ((item * rows * tables.limbs) << log), query.key, rows, limb, number, p, tables);
    auto values = Result::of(query, blockIdx.y, substitution, tables).values(limb, 4 * number, tables);
    Meeting<decltype(values), 4, 1>(values, 0, p).put(values, a, b, p);
}

}  // namespace spirea

using namespace spirea;

// Blocks: x = source and limb, y = item, z = query.
#define RESIDUES(degree, log)                                                                                   \
    KERNEL(ring_substitution_residues_##degree, degree / 16, 16384 / degree,                                    \
           (const Substituted* queries, Substitution substitution, uint32_t* residues, RingTables tables,       \
            Decomposition decomposition)) {                                                                     \
        SHARED(uint32_t, exchange);                                                                             \
        const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;                                              \
        residues_kernel<log>(substitution.image(queries[blockIdx.z], blockIdx.y, tables), blockIdx.x,           \
                             residues + (item * gridDim.x + blockIdx.x) * degree, tables, decomposition,        \
                             exchange);                                                                         \
    }                                                                                                           \
    KERNEL(ring_game_residues_##degree, degree / 16, 16384 / degree,                                            \
           (const Playing* queries, Games games, uint32_t* residues, RingTables tables,                         \
            Decomposition decomposition)) {                                                                     \
        SHARED(uint32_t, exchange);                                                                             \
        const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;                                              \
        residues_kernel<log>(games.source(queries[blockIdx.z], blockIdx.y, blockIdx.x / tables.limbs, tables),  \
                             blockIdx.x % tables.limbs,                                                         \
                             residues + (item * gridDim.x + blockIdx.x) * degree, tables, decomposition,        \
                             exchange);                                                                         \
    }

// budget ring_substitution_residues_4096: 64 registers
// budget ring_game_residues_4096: 64 registers
RESIDUES(4096, 12)
// budget ring_substitution_residues_2048: 64 registers
// budget ring_game_residues_2048: 64 registers
RESIDUES(2048, 11)

// Residues [polynomial][limb][N] to fields [polynomial][digit][N]: a thread a coefficient; blocks: x = coefficients,
// y = polynomial. About 100 instructions for a coefficient of four primes, and 10 for a digit. Shared memory: [limb][256]
// words, every one a thread's own, because registers have no number that is known late.
// budget: 48 registers
KERNEL(ring_recombine, 256, 4, (const uint32_t* residues, uint32_t* fields, RingTables tables,
                                Decomposition decomposition)) {
    SHARED(uint32_t, words);
    const uint32_t degree = 1u << tables.log_degree, i = blockIdx.x * 256 + threadIdx.x;
    const uint32_t* const from = residues + (uint64_t)blockIdx.y * tables.limbs * degree + i;
    uint32_t* const to = fields + (uint64_t)blockIdx.y * decomposition.levels * degree + i;
    uint32_t x[MOST_PRIMES];
#pragma unroll
    for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb) x[limb] = limb < tables.limbs ? from[limb * degree] : 0;
    recombine(x, tables.primes, decomposition);
#pragma unroll
    for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb) words[limb * 256 + threadIdx.x] = x[limb];
    for (uint32_t number = 0; number < decomposition.levels; ++number) {
        const Digit& digit = decomposition.digits[number];
        const uint32_t word = words[digit.word * 256 + threadIdx.x], upper = words[digit.upper * 256 + threadIdx.x];
        to[number * degree] = field(word, upper, digit);
    }
}

// Blocks: x = row and limb, y = item, z = query.
#define TERMS(degree, log)                                                                                      \
    KERNEL(ring_substitution_terms_##degree, degree / 16, 16384 / degree,                                       \
           (const Substituted* queries, Substitution substitution, const uint32_t* fields, uint32_t* terms,     \
            RingTables tables, Decomposition decomposition)) {                                                  \
        SHARED(uint32_t, exchange);                                                                             \
        const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;                                              \
        const uint32_t row = blockIdx.x / tables.limbs, rows = gridDim.x / tables.limbs;                        \
        terms_kernel<log>(substitution.image(queries[blockIdx.z], blockIdx.y, tables),                          \
                          fields + (item * rows + row) * degree, row, blockIdx.x % tables.limbs,                \
                          terms + (item * gridDim.x + blockIdx.x) * degree, tables, decomposition, exchange);   \
    }                                                                                                           \
    KERNEL(ring_game_terms_##degree, degree / 16, 16384 / degree,                                               \
           (const Playing* queries, Games games, const uint32_t* fields, uint32_t* terms, RingTables tables,    \
            Decomposition decomposition)) {                                                                     \
        SHARED(uint32_t, exchange);                                                                             \
        const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;                                              \
        const uint32_t row = blockIdx.x / tables.limbs, rows = gridDim.x / tables.limbs;                        \
        const uint32_t source = row / decomposition.levels;                                                     \
        terms_kernel<log>(games.source(queries[blockIdx.z], blockIdx.y, source, tables),                        \
                          fields + (item * rows + row) * degree, row - source * decomposition.levels,           \
                          blockIdx.x % tables.limbs, terms + (item * gridDim.x + blockIdx.x) * degree, tables,  \
                          decomposition, exchange);                                                             \
    }

// budget ring_substitution_terms_4096: 64 registers
// budget ring_game_terms_4096: 64 registers
TERMS(4096, 12)
// budget ring_substitution_terms_2048: 64 registers
// budget ring_game_terms_2048: 64 registers
TERMS(2048, 11)

// Terms times keys, and children or images: a thread four values; blocks: x = limbs and quadruples, y = item, z = query.
// Reads rows * 3 words for a value of a limb.
// budget: 64 registers
KERNEL(ring_split_children, 128, 6, (const Substituted* queries, Substitution level, const uint32_t* terms,
                                     RingTables tables, Decomposition decomposition)) {
    substituted_kernel<Split>(queries, level, terms, tables, decomposition);
}
// budget: 64 registers
KERNEL(ring_rotation_images, 128, 6, (const Substituted* queries, Substitution step, const uint32_t* terms,
                                      RingTables tables, Decomposition decomposition)) {
    substituted_kernel<Rotation>(queries, step, terms, tables, decomposition);
}

// Terms times a selector, added to the first of two: blocks: x = limbs and quadruples, y = game, z = query.
// budget: 64 registers
KERNEL(ring_game_sums, 128, 6, (const Playing* queries, Games games, const uint32_t* terms, RingTables tables,
                                Decomposition decomposition)) {
    const uint32_t log = tables.log_degree, thread = blockIdx.x * 128 + threadIdx.x;
    const uint32_t limb = thread >> (log - 2), number = thread & ((1u << (log - 2)) - 1);
    const uint32_t rows = 2 * decomposition.levels;
    const uint64_t item = blockIdx.z * gridDim.y + blockIdx.y;
    const Playing query = queries[blockIdx.z];
    const Prime p = tables.primes[limb];
    uint32_t a[4], b[4];
    sum_rows(a, b, terms + ((item * rows * tables.limbs) << log), query.selector, rows, limb, number, p, tables);
    uint32_t* const polynomial = games.first(query, blockIdx.y) + ((uint64_t)limb << log);
    Words4* const first_a = reinterpret_cast<Words4*>(polynomial) + number;
    Words4* const first_b = first_a + ((uint64_t)tables.limbs << (log - 2));
    const Words4 value_a = *first_a, value_b = *first_b;
    *first_a = {add(value_a.x, a[0], p), add(value_a.y, a[1], p), add(value_a.z, a[2], p), add(value_a.w, a[3], p)};
    *first_b = {add(value_b.x, b[0], p), add(value_b.y, b[1], p), add(value_b.z, b[2], p), add(value_b.w, b[3], p)};
}
