// What begins and ends a pipeline on a ring: plaintexts and bodies to values, keys to fragments, modulus switching.
#include "ring.cuh"

namespace spirea {

// What plaintext coefficients are made of words: x to (x + half) >> dropped, signed. That rounds a word to its upper
// bits and centres them; words that are coefficients already have no half, and drop nothing.
struct Rounding {
    uint32_t half, dropped;
};

// Plaintext coefficients, any signed words once they are rounded, to values; a block a limb of a polynomial.
template <uint32_t LOG>
DEVICE void encode_kernel(const uint32_t* words, Rounding rounding, uint32_t* values, const RingTables& tables,
                          const Factor* ones, uint32_t* exchange) {
    using N = Ntt<LOG>;
    const uint32_t limb = blockIdx.x % tables.limbs;
    const uint32_t* const from = words + (uint64_t)(blockIdx.x / tables.limbs) * N::DEGREE;
    const Prime p = tables.primes[limb];
    const Factor one = ones[limb];
    // A word less 2^31, both modulo q: below 3q.
    const uint32_t half = multiply_lazy(0x80000000u, one.value, one.companion, p.q);
    const uint32_t sign = p.q - subtract_if_reached(half, p.q);
    uint32_t x[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
        const int32_t coefficient = (int32_t)(from[N::THREADS * i + threadIdx.x] + rounding.half) >> rounding.dropped;
        const uint32_t raised = (uint32_t)coefficient ^ 0x80000000u;
        x[i] = multiply_lazy(raised, one.value, one.companion, p.q) + sign;
    }
    N::template forward<Shoup>(x, exchange, tables.forward + limb * N::TABLE, p);
    N::own_to_rows(x, exchange);
    uint32_t* const rows = values + (uint64_t)blockIdx.x * N::DEGREE + N::first_of_rows();
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) rows[N::ROW * i] = x[i];
}

// Ciphertexts of a batch (`ring/ciphertexts.rs`): of each query, which has `places` of them, the first `count`. They
// are numbered through all queries.
struct Batch {
    uint32_t* words;
    uint32_t count, places;

    DEVICE uint32_t query(uint32_t ciphertext) const { return ciphertext / count; }
    DEVICE uint32_t of_query(uint32_t ciphertext) const { return ciphertext % count; }
    DEVICE uint32_t* polynomial(uint32_t ciphertext, uint32_t number, const RingTables& tables) const {
        const uint64_t place = (uint64_t)query(ciphertext) * places + of_query(ciphertext);
        return words + (((2 * place + number) * tables.limbs) << tables.log_degree);
    }
};

// Bodies of a batch (`ring/ends.rs`): `count` words of each query, `stride` words behind those of the one before it.
struct BodyWords {
    const uint32_t* words;
    uint64_t count, stride;
};

// The upper `bits` bits of words, rounded, times the scale, added to b; a block a limb of a ciphertext. A query's words
// from `count` on are zeros.
template <uint32_t LOG>
DEVICE void bodies_kernel(const BodyWords& bodies, const Batch& batch, uint32_t bits, const RingTables& tables,
                          const Factor* scales, uint32_t* exchange) {
    using N = Ntt<LOG>;
    const uint32_t limb = blockIdx.x % tables.limbs, ciphertext = blockIdx.x / tables.limbs;
    const uint64_t skipped = (uint64_t)batch.of_query(ciphertext) * N::DEGREE;
    const uint32_t* const words = bodies.words + batch.query(ciphertext) * bodies.stride + skipped;
    const uint64_t count = bodies.count - skipped;
    const Prime p = tables.primes[limb];
    const Factor scale = scales[limb];
    uint32_t x[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
        const uint32_t at = N::THREADS * i + threadIdx.x;
        const uint64_t raised = (uint64_t)(at < count ? words[at] : 0) + (1u << (31 - bits));
        const uint32_t rounded = (uint32_t)(raised >> (32 - bits)) & ((1u << bits) - 1);
        x[i] = multiply_lazy(rounded, scale.value, scale.companion, p.q);
    }
    N::template forward<Shoup>(x, exchange, tables.forward + limb * N::TABLE, p);
    N::own_to_rows(x, exchange);
    uint32_t* const rows = batch.polynomial(ciphertext, 1, tables) + limb * N::DEGREE + N::first_of_rows();
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) rows[N::ROW * i] = add(rows[N::ROW * i], x[i], p);
}

// How a polynomial is switched: with y_i = x (q / q_i)^-1 mod q_i, x / q is the sum of y_i / q_i up to whole numbers,
// and x 2^bits / q is rounded from the sum's fraction. The fractions 1 / q_i are rounded down to 224 bits, so that the
// sum is too small by less than 4 2^30 2^-224. The rounded result changes where x 2^bits / q + 1 / 2 is whole, from
// which it is at least 1 / (2q) away, q being odd: with q < 2^120 and 56 bits that is more than 2^56 times the error,
// and the result is exact.
struct Switch {
    Factor scales[MOST_PRIMES];           // (q / q_i)^-1 / N
    uint32_t fractions[MOST_PRIMES][7];   // floor(2^224 / q_i), lowest word first
    uint32_t bits[2];                     // of a and of b
};

// round(x 2^bits / q) mod 2^bits.
DEVICE uint64_t switched(const uint32_t (&y)[MOST_PRIMES], uint32_t bits, const Switch& method) {
    uint32_t sum[7] = {};
#pragma unroll
    for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb) {
        uint64_t carry = 0;
#pragma unroll
        for (uint32_t word = 0; word < 7; ++word) {
            // Below 2^30 2^32 + 2 2^32.
            carry = multiply_add_wide(y[limb], method.fractions[limb][word], (carry >> 32) + sum[word]);
            sum[word] = (uint32_t)carry;
        }
    }
    const uint64_t fraction = (uint64_t)sum[6] << 32 | sum[5];
    return (fraction + (1ull << (63 - bits))) >> (64 - bits);
}

// Where the words of a switched ciphertext go: one after another,
struct InOrder {
    uint32_t* to;
    DEVICE void store(uint32_t word, uint32_t value) const { to[word] = value; }
};
// or, byte by byte, down a column of a matrix in panels: a word is four of a panel's 32 rows, and a row's next one is
// four bytes on.
struct InPanels {
    unsigned char* column;
    uint32_t quads;  // of a panel
    DEVICE void store(uint32_t word, uint32_t value) const {
        unsigned char* const bytes = column + (uint64_t)(word / 8) * quads * 128 + word % 8 * 16;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) bytes[4 * i] = (unsigned char)(value >> 8 * i);
    }
};

// One polynomial of a ciphertext; shared memory holds its residues and then its switched coefficients. Transforms exchange
// words where the residues of the last limb come to lie afterwards, and on the last row of the limb before, which a register
// keeps.
template <uint32_t LOG, class Place>
DEVICE void switch_kernel(const Batch& batch, const Place& place, const RingTables& tables, const Switch& method,
                          uint32_t* shared) {
    using N = Ntt<LOG>;
    const uint32_t polynomial = blockIdx.x % 2, bits = method.bits[polynomial];
    const uint32_t* const values = batch.polynomial(blockIdx.x / 2, polynomial, tables);
    const uint32_t last = tables.limbs - 1;
    uint32_t* const exchange = shared + (last == 0 ? 0 : last * N::DEGREE - N::THREADS);
    uint32_t kept = 0;
#pragma unroll 1
    for (uint32_t limb = 0; limb < tables.limbs; ++limb) {
        const uint32_t* const rows = values + limb * N::DEGREE + N::first_of_rows();
        uint32_t x[16];
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = rows[N::ROW * i];
        N::rows_to_own(x, exchange);
        N::template inverse<Shoup>(x, exchange, tables.inverse + limb * N::TABLE, method.scales[limb],
                                   tables.primes[limb]);
#pragma unroll
        for (uint32_t i = 0; i < 15; ++i) shared[limb * N::DEGREE + N::THREADS * i + threadIdx.x] = x[i];
        if (limb + 1 == last) {
            kept = x[15];
        } else {
            shared[limb * N::DEGREE + N::THREADS * 15 + threadIdx.x] = x[15];
        }
    }
    if (last > 0) exchange[threadIdx.x] = kept;
    // A coefficient's two words take the places of its first two residues.
    uint32_t *const lower = shared, *const upper = shared + N::DEGREE;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < N::DEGREE; i += N::THREADS) {
        uint32_t y[MOST_PRIMES];
#pragma unroll
        for (uint32_t limb = 0; limb < MOST_PRIMES; ++limb)
            y[limb] = limb < tables.limbs ? shared[limb * N::DEGREE + i] : 0;
        const uint64_t result = switched(y, bits, method);
        lower[i] = (uint32_t)result;
        upper[i] = (uint32_t)(result >> 32);
    }
    block_barrier();
    // A thread a word of the stream: whatever coefficients have bits in it.
    const uint32_t first = polynomial == 0 ? 0 : method.bits[0] * (N::DEGREE / 32);
    for (uint32_t word = threadIdx.x; word < bits * (N::DEGREE / 32); word += N::THREADS) {
        uint32_t coefficient = 32 * word / bits, packed = 0;
        uint64_t rest = ((uint64_t)upper[coefficient] << 32 | lower[coefficient]) >> (32 * word - bits * coefficient);
        for (uint32_t have = 0, next = bits * (coefficient + 1) - 32 * word;;) {
            packed |= (uint32_t)(rest << have);
            if (next >= 32) break;
            ++coefficient;
            rest = (uint64_t)upper[coefficient] << 32 | lower[coefficient];
            have = next;
            next += bits;
        }
        place.store(first + word, packed);
    }
}

}  // namespace spirea

using namespace spirea;

// Blocks of the first two: limbs of polynomials or ciphertexts, limb fastest; of the others: polynomials. Ciphertexts are
// those of all queries of a batch.
//
//     ring_encode   words [polynomial][N], rounded, to values [polynomial][limb][N]; `ones` 1 as a factor for each limb
//     ring_bodies   words [ciphertext][N] of each query, of which the upper `bits` < 32 bits count; `scales` for each limb
//     ring_switch   ciphertexts to their switched polynomials, bit after bit (`SwitchedBits::bytes`), 1 to 56 bits, those
//                   of one query behind those of another; shared memory: limbs, or at least 2, times N words
//     ring_columns  the same to the columns of a matrix of each query in panels of `quads` quads, from its first row on
#define ENDS(degree, log)                                                                                       \
    KERNEL(ring_encode_##degree, degree / 16, 16384 / degree,                                                   \
           (const uint32_t* words, Rounding rounding, uint32_t* values, RingTables tables,                      \
            const Factor* ones)) {                                                                              \
        SHARED(uint32_t, exchange);                                                                             \
        encode_kernel<log>(words, rounding, values, tables, ones, exchange);                                    \
    }                                                                                                           \
    KERNEL(ring_bodies_##degree, degree / 16, 16384 / degree,                                                   \
           (BodyWords bodies, Batch batch, uint32_t bits, RingTables tables, const Factor* scales)) {           \
        SHARED(uint32_t, exchange);                                                                             \
        bodies_kernel<log>(bodies, batch, bits, tables, scales, exchange);                                      \
    }                                                                                                           \
    KERNEL(ring_switch_##degree, degree / 16, 12288 / degree,                                                   \
           (Batch batch, uint32_t* to, RingTables tables, Switch method)) {                                     \
        SHARED(uint32_t, shared);                                                                               \
        const uint32_t words = (method.bits[0] + method.bits[1]) * (degree / 32);                               \
        const InOrder place{to + (uint64_t)(blockIdx.x / 2) * words};                                           \
        switch_kernel<log>(batch, place, tables, method, shared);                                               \
    }                                                                                                           \
    KERNEL(ring_columns_##degree, degree / 16, 12288 / degree,                                                  \
           (Batch batch, unsigned char* const* matrices, uint32_t quads, RingTables tables, Switch method)) {   \
        SHARED(uint32_t, shared);                                                                               \
        unsigned char* const matrix = matrices[batch.query(blockIdx.x / 2)];                                    \
        const uint32_t column = batch.of_query(blockIdx.x / 2);                                                 \
        const InPanels place{matrix + (uint64_t)(column / 4) * 128 + column % 4, quads};                        \
        switch_kernel<log>(batch, place, tables, method, shared);                                               \
    }

// budget ring_encode_4096: 64 registers
// budget ring_bodies_4096: 64 registers
// budget ring_switch_4096: 80 registers
// budget ring_columns_4096: 80 registers
ENDS(4096, 12)
// budget ring_encode_2048: 64 registers
// budget ring_bodies_2048: 64 registers
// budget ring_switch_2048: 80 registers
// budget ring_columns_2048: 80 registers
ENDS(2048, 11)

// Rows of ciphertexts [row][a, b][limb][N] to rows of keys: fragments of products with factors, Montgomery's way.
// Row `digit` of every `levels` has factor [digit][limb] and goes to row `first` + digit of every `stride`. A thread
// four words; any words are taken, whatever a client has sent.
// budget: 32 registers
KERNEL(ring_keys, 128, 8, (const uint32_t* rows, uint32_t* keys, const uint32_t* factors, uint32_t levels,
                           uint32_t first, uint32_t stride, RingTables tables)) {
    const uint32_t log = tables.log_degree, quadruples = 1u << (log - 2);
    const uint32_t at = blockIdx.x * 128 + threadIdx.x, limb = at / quadruples % tables.limbs;
    const uint32_t polynomial = at / quadruples / tables.limbs, row = blockIdx.y, digit = row % levels;
    const uint64_t of_row = (uint64_t)2 * tables.limbs * quadruples;
    const Words4 x = reinterpret_cast<const Words4*>(rows)[row * of_row + at];
    const Prime p = tables.primes[limb];
    const uint32_t factor = factors[digit * tables.limbs + limb];
    const uint64_t to = (uint64_t)(row / levels) * stride + first + digit;
    reinterpret_cast<Words4*>(keys)[to * of_row + (uint64_t)(polynomial * tables.limbs + limb) * quadruples +
                                    fragment(at % quadruples)] = {
        montgomery(x.x, factor, p), montgomery(x.y, factor, p), montgomery(x.z, factor, p),
        montgomery(x.w, factor, p)};
}
