// Substitutions and external products, a kernel a stage: one block does all of one node, of one rotated
// ciphertext or of one game (GPIR, section 4).
//
// Shared memory holds the source's residues, [limb][16][threads], which become the words of its recombined
// coefficients in place; every word is one thread's own. For each prime the digits are cut from them, transformed and
// multiplied at once (IVE, section IV: reduction overlapping): what a thread keeps of the products are two 64-bit
// sums for each of its 16 values. Nothing between a ciphertext and its children goes through memory.
//
// Of a source of L limbs and D digits: L inverse and L D forward transforms (one less for each limb where digits are
// residues), 32 L D multiply-adds a thread.
#include "ring.cuh"

namespace spirea {

// Two sums of products for each of a thread's values.
struct Sums {
    uint64_t a[16] = {}, b[16] = {};

    // Adds 16 terms below q times a row of a key, whose a and b are `of_polynomial` quadruples apart.
    DEVICE void add(const uint32_t (&terms)[16], const Words4* key, uint32_t of_polynomial) {
        const uint32_t thread = opaque(threadIdx.x);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t at = fragment(4 * thread + i);
            const Words4 ka = load_table(key + at);
            a[4 * i] = multiply_add_wide(terms[4 * i], ka.x, a[4 * i]);
            a[4 * i + 1] = multiply_add_wide(terms[4 * i + 1], ka.y, a[4 * i + 1]);
            a[4 * i + 2] = multiply_add_wide(terms[4 * i + 2], ka.z, a[4 * i + 2]);
            a[4 * i + 3] = multiply_add_wide(terms[4 * i + 3], ka.w, a[4 * i + 3]);
            const Words4 kb = load_table(key + of_polynomial + at);
            b[4 * i] = multiply_add_wide(terms[4 * i], kb.x, b[4 * i]);
            b[4 * i + 1] = multiply_add_wide(terms[4 * i + 1], kb.y, b[4 * i + 1]);
            b[4 * i + 2] = multiply_add_wide(terms[4 * i + 2], kb.z, b[4 * i + 2]);
            b[4 * i + 3] = multiply_add_wide(terms[4 * i + 3], kb.w, b[4 * i + 3]);
        }
    }
    DEVICE void settle(Prime p) {
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            a[i] = settled(a[i], p);
            b[i] = settled(b[i], p);
        }
    }
};

// The residues of a source, all limbs, and their recombination.
template <uint32_t LOG, class Source>
DEVICE void decompose(const Source& source, const RingTables& tables, const Decomposition& decomposition,
                      uint32_t* residues, uint32_t* exchange) {
    using N = Ntt<LOG>;
#pragma unroll 1
    for (uint32_t limb = 0; limb < tables.limbs; ++limb) {
        uint32_t x[16];
        load_residues<LOG>(x, source, limb, tables, decomposition, exchange);
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) residues[limb * N::DEGREE + N::THREADS * i + threadIdx.x] = x[i];
    }
    if (decomposition.recombined == 0) return;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < N::DEGREE; i += N::THREADS) {
        uint32_t x[MOST_PRIMES];
#pragma unroll
        for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb)
            x[limb] = limb < tables.limbs ? residues[limb * N::DEGREE + i] : 0;
        recombine(x, tables.primes, decomposition);
#pragma unroll
        for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb)
            if (limb < tables.limbs) residues[limb * N::DEGREE + i] = x[limb];
    }
}

// The products of a source's digits with the rows of `key()`, value by value to what `sink().values` gives: a sink is
// made when it is wanted, because its addresses would take registers from the sums, and so may the key be.
template <uint32_t LOG, class Source, class Sink, class Key>
DEVICE void stage(const Source& source, const Sink& sink, const Key& key, const RingTables& tables,
                  const Decomposition& decomposition, uint32_t* shared) {
    using N = Ntt<LOG>;
    uint32_t *const residues = shared, *const exchange = shared + tables.limbs * N::DEGREE;
    decompose<LOG>(source, tables, decomposition, residues, exchange);
    const uint32_t of_polynomial = tables.limbs * (N::DEGREE / 4);
#pragma unroll 1
    for (uint32_t limb = 0; limb < tables.limbs; ++limb) {
        const Prime p = tables.primes[limb];
        Sums sums;
#pragma unroll 1
        for (uint32_t number = 0; number < decomposition.levels; ++number) {
            const Digit& digit = decomposition.digits[number];
            uint32_t x[16];
            if (digit.own == limb) {
                load_own<LOG>(x, source, limb, p, exchange);
            } else {
                const uint32_t *const word = residues + digit.word * N::DEGREE + threadIdx.x,
                                     *const upper = residues + digit.upper * N::DEGREE + threadIdx.x;
                const uint32_t lift = digit.lift[limb];
#pragma unroll
                for (uint32_t i = 0; i < 16; ++i)
                    x[i] = field(word[N::THREADS * i], upper[N::THREADS * i], digit) + lift;
                N::template forward<Shoup>(x, exchange, tables.forward + limb * N::TABLE, p);
            }
            const uint32_t row = (2 * number * tables.limbs + limb) * (N::DEGREE / 4);
            sums.add(x, reinterpret_cast<const Words4*>(key()) + row, of_polynomial);
            if (number % LAZY_PRODUCTS == LAZY_PRODUCTS - 1) sums.settle(p);
        }
        sums.settle(p);
        uint32_t a[16], b[16];
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            a[i] = montgomery(sums.a[i], p);
            b[i] = montgomery(sums.b[i], p);
        }
        N::own_to_rows(a, exchange);
        N::own_to_rows(b, exchange);
        const auto values = sink().values(limb, opaque(N::first_of_rows()), tables);
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) values.put(N::ROW * i, a[i], b[i], p);
    }
}

// A substitution of one ciphertext, of which a `Result` makes what is wanted.
template <uint32_t LOG, class Result>
DEVICE void substitute(const Substituted* queries, const Substitution& substitution, const RingTables& tables,
                       const Decomposition& decomposition, uint32_t* shared) {
    const Substituted query = queries[blockIdx.y];
    const auto sink = [&] { return Result::of(queries[opaque(blockIdx.y)], opaque(blockIdx.x), substitution, tables); };
    const auto key = [&] { return query.key; };
    stage<LOG>(substitution.image(query, blockIdx.x, tables), sink, key, tables, decomposition, shared);
}

// What the two sources of a game add to the first ciphertext. The product of the digits of b comes first, when the
// digits of a are still wanted of both ciphertexts: its a waits in the place of the second's b.
struct Winner {
    uint32_t* first;
    uint64_t second;  // words from the first
    uint32_t source;

    struct Values {
        uint32_t *first_a, *first_b, *second_b;
        uint32_t source;

        DEVICE void put(uint32_t offset, uint32_t a, uint32_t b, Prime p) const {
            first_b[offset] = add(first_b[offset], b, p);
            if (source == 0)
                second_b[offset] = a;
            else
                first_a[offset] = add(first_a[offset], add(second_b[offset], a, p), p);
        }
    };
    DEVICE Values values(uint32_t limb, uint32_t place, const RingTables& tables) const {
        uint32_t* const first_a = first + ((uint64_t)limb << tables.log_degree) + place;
        uint32_t* const first_b = first_a + ((uint64_t)tables.limbs << tables.log_degree);
        return {first_a, first_b, first_b + second, source};
    }
};

// The source of a game's digits, whose address is read whenever values are wanted: it, too, would take registers.
struct Rivals {
    const Playing* queries;
    const Games& games;
    const RingTables& tables;
    uint32_t source;

    DEVICE Difference::Values values(uint32_t limb, uint32_t place) const {
        const Playing query = queries[opaque(blockIdx.y)];
        return games.source(query, opaque(blockIdx.x), source, tables).values(limb, place);
    }
};

template <uint32_t LOG>
DEVICE void play(const Playing* queries, const Games& games, const RingTables& tables,
                 const Decomposition& decomposition, uint32_t* shared) {
#pragma unroll 1
    for (uint32_t source = 0; source < 2; ++source) {
        const auto sink = [&] {
            return Winner{games.first(queries[opaque(blockIdx.y)], opaque(blockIdx.x)), games.distance, source};
        };
        const auto selector = [&] { return queries[opaque(blockIdx.y)].selector + source * games.of_source; };
        stage<LOG>(Rivals{queries, games, tables, source}, sink, selector, tables, decomposition, shared);
    }
}

}  // namespace spirea

using namespace spirea;

// Blocks: x = node, rotated ciphertext or game, y = query. Shared memory: limbs N words and those of an exchange.
#define STAGES(degree, log)                                                                                     \
    KERNEL(ring_split_##degree, degree / 16, 8192 / degree,                                                     \
           (const Substituted* queries, Substitution level, RingTables tables, Decomposition decomposition)) {  \
        SHARED(uint32_t, shared);                                                                               \
        substitute<log, Split>(queries, level, tables, decomposition, shared);                                  \
    }                                                                                                           \
    KERNEL(ring_rotation_##degree, degree / 16, 8192 / degree,                                                  \
           (const Substituted* queries, Substitution step, RingTables tables, Decomposition decomposition)) {   \
        SHARED(uint32_t, shared);                                                                               \
        substitute<log, Rotation>(queries, step, tables, decomposition, shared);                                \
    }                                                                                                           \
    KERNEL(ring_game_##degree, degree / 16, 8192 / degree,                                                      \
           (const Playing* queries, Games games, RingTables tables, Decomposition decomposition)) {             \
        SHARED(uint32_t, shared);                                                                               \
        play<log>(queries, games, tables, decomposition, shared);                                               \
    }

// budget ring_split_4096: 128 registers
// budget ring_rotation_4096: 128 registers
// budget ring_game_4096: 128 registers
STAGES(4096, 12)
// budget ring_split_2048: 128 registers
// budget ring_rotation_2048: 128 registers
// budget ring_game_2048: 128 registers
STAGES(2048, 11)
