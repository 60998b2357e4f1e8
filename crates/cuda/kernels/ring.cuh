// Digits times keys: what substitutions and external products have in common.
//
// A ciphertext is [a, b][limb][N], a key or a selector [row][a, b][limb][N] with a row for each digit of each of its
// sources. Its words are values times 2^32 modulo q, in *fragments*: of a warp's 512 values, thread t's quadruple j
// (values 16 t + 4 j to + 3) is number 32 j + t, so that a warp reads consecutive quadruples.
//
// Digits are never signed: a digit is an unsigned *field*, and `lift` is what makes it its residue modulo a prime,
// below 4q, as the forward transform wants it (`ring/decomposition.rs`).
#pragma once
#include "ntt.cuh"

namespace spirea {

constexpr uint32_t MOST_PRIMES = 4, MOST_DIGITS = 24, NONE = 0xffffffffu;

// Products of words below q that a 64-bit sum takes beside what it is settled to, for q < 2^30: settled, it is below
// 2^32 q, and 12 products are below 12 q^2 < 3 2^32 q.
constexpr uint32_t LAZY_PRODUCTS = 12;

// A ring (`ring/tables.rs`).
struct RingTables {
    const Prime* primes;    // [limb]
    const Words4* forward;  // [limb][TABLE]
    const Words4* inverse;  // [limb][TABLE]
    const Factor* powers;   // [limb][N]: the 2N-th root to the power of the place with its bits reversed
    uint32_t limbs;
    uint32_t log_degree;
};

// A digit: a field of the recombined words, and what is its residue.
struct Digit {
    uint32_t word, upper, shift, mask;  // ((upper word : word) >> shift) & mask
    uint32_t own;                       // the limb whose values, times a factor of the key, are the digit's, or NONE
    uint32_t lift[MOST_PRIMES];
};

// A gadget's decomposition (`ring/decomposition.rs`).
struct Decomposition {
    uint32_t levels;
    uint32_t recombined;          // limbs whose residues become the words of one number; 0: residues are fields
    Factor scales[MOST_PRIMES];   // what the inverse transform multiplies by
    uint32_t shifts[MOST_PRIMES]; // and what is added then
    Factor inverses[6];           // for i and j < i, at i (i - 1) / 2 + j: 1 / q_j mod q_i,
    uint32_t multiples[6];        // and the multiple of q_i that is at least q_j
    uint32_t constant[MOST_PRIMES];
    Digit digits[MOST_DIGITS];
};

// Quadruple `number` of a polynomial's values, as its number among fragments.
DEVICE uint32_t fragment(uint32_t number) {
    return number / 128 * 128 + number % 4 * 32 + number / 4 % 32;
}

// Residues, shifted, to the words of x + constant (Garner's algorithm, then Horner's rule).
DEVICE void recombine(uint32_t (&x)[MOST_PRIMES], const Prime* primes, const Decomposition& decomposition) {
    const uint32_t limbs = decomposition.recombined;
#pragma unroll
    for (uint32_t i = 1; i < MOST_PRIMES; ++i) {
        if (i >= limbs) break;
        const uint32_t q = primes[i].q;
#pragma unroll
        for (uint32_t j = 0; j < i; ++j) {
            const uint32_t number = i * (i - 1) / 2 + j;
            const Factor inverse = decomposition.inverses[number];
            // x[i] is below 2q and the multiple at most 4q; where it is more than 2q, q is below 2^29.
            const uint32_t difference = x[i] + decomposition.multiples[number] - x[j];
            x[i] = multiply_lazy(difference, inverse.value, inverse.companion, q);
        }
        x[i] = subtract_if_reached(x[i], q);
    }
    uint32_t words[MOST_PRIMES] = {};
#pragma unroll
    for (uint32_t i = MOST_PRIMES; i-- > 0;) {
        if (i >= limbs) continue;
        const uint32_t q = primes[i].q;
        uint64_t carry = x[i];
#pragma unroll
        for (uint32_t word = 0; word < MOST_PRIMES - i; ++word) {
            carry = multiply_add_wide(words[word], q, carry);
            words[word] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    uint64_t carry = 0;
#pragma unroll
    for (uint32_t word = 0; word < MOST_PRIMES; ++word) {
        carry += (uint64_t)words[word] + decomposition.constant[word];
        x[word] = (uint32_t)carry;
        carry >>= 32;
    }
}

DEVICE uint32_t field(uint32_t word, uint32_t upper, const Digit& digit) {
    return (uint32_t)(((uint64_t)upper << 32 | word) >> digit.shift) & digit.mask;
}

// Value `place` belongs to the root of exponent 2 r + 1, r being the place with its bits reversed. Exponents are in the
// upper log + 1 bits of words, where products and sums are modulo 2N by themselves, and where the reversed word is the
// place plus N. The place may come in two parts that share no bit: the second is added as `reverse_bits`.
DEVICE uint32_t root_exponent(uint32_t place, uint32_t log) { return reverse_bits(place) + (1u << (31 - log)); }

// What follows addresses values in two parts likewise, a thread's first place and an offset that shares no bit with it
// and that the compiler knows: what depends on the first part alone is computed once.

// Source of digits: a polynomial under the substitution X -> X^exponent. Rows of 16 values come from rows.
struct Image {
    const uint32_t* polynomial;
    uint32_t exponent, log;

    struct Values {
        const uint32_t* less_degree;
        uint32_t root, exponent;
        DEVICE uint32_t at(uint32_t offset, Prime) const {
            return less_degree[reverse_bits(root + reverse_bits(offset) * exponent)];
        }
    };
    DEVICE Values values(uint32_t limb, uint32_t first) const {
        return {polynomial + ((uint64_t)limb << log) - (1u << log), root_exponent(first, log) * exponent, exponent};
    }
};

// Source of digits: the difference of two polynomials, `distance` words apart.
struct Difference {
    const uint32_t* first;
    uint64_t distance;
    uint32_t log;

    struct Values {
        const uint32_t *first, *second;
        DEVICE uint32_t at(uint32_t offset, Prime p) const { return subtract(second[offset], first[offset], p); }
    };
    DEVICE Values values(uint32_t limb, uint32_t place) const {
        const uint32_t* const of_limb = first + ((uint64_t)limb << log) + place;
        return {of_limb, of_limb + distance};
    }
};

// A source's values of one limb, 16 consecutive ones a thread.
template <class N, class Source>
DEVICE void load_own(uint32_t (&x)[16], const Source& source, uint32_t limb, Prime p, uint32_t* exchange) {
    const auto values = source.values(limb, opaque(N::first_of_rows()));
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) x[i] = values.at(N::ROW * i, p);
    N::rows_to_own(x, exchange);
}

// A source's coefficients of one limb, scaled and shifted for the decomposition: x[i] is coefficient t + N / 16 i.
template <class N, class Source>
DEVICE void load_residues(uint32_t (&x)[16], const Source& source, uint32_t limb, const RingTables& tables,
                          const Decomposition& decomposition, uint32_t* exchange) {
    const Prime p = tables.primes[limb];
    load_own<N>(x, source, limb, p, exchange);
    N::template inverse<Shoup>(x, exchange, tables.inverse + limb * N::TABLE, decomposition.scales[limb], p);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) x[i] = add(x[i], decomposition.shifts[limb], p);
}

// A sum of products below 2^34 q to below 2^32 q.
DEVICE uint64_t settled(uint64_t sum, Prime p) {
    const uint32_t upper = subtract_if_reached((uint32_t)(sum >> 32), 2 * p.q);
    return join_words((uint32_t)sum, subtract_if_reached(upper, p.q));
}

DEVICE uint64_t ciphertext_words(const RingTables& tables) { return (uint64_t)(2 * opaque(tables.limbs)) << tables.log_degree; }

// A query whose ciphertexts are substituted: where they and the results are, and its key of the substitution.
struct Substituted {
    const uint32_t* sources;
    uint32_t* results;
    const uint32_t* key;
};

// A substitution (`ring/substitutions.rs`): what is the same for all items of a stage. These come in runs of 2^log_run;
// the ciphertexts of a run follow one another, and those of the next begin a stride further on, counted in ciphertexts.
struct Substitution {
    uint32_t exponent;
    uint32_t log_run, source_stride, result_stride;
    uint32_t level, children;  // where nodes split: the level, and the children that are wanted
    uint32_t adds, keeps;      // where ciphertexts are rotated: what `Rotation` does beside

    DEVICE uint32_t place(uint32_t item, uint32_t stride) const {
        return (item >> log_run) * stride + (item & ((1u << log_run) - 1));
    }
    DEVICE const uint32_t* source(const Substituted& query, uint32_t item, const RingTables& tables) const {
        return query.sources + place(item, source_stride) * ciphertext_words(tables);
    }
    DEVICE uint32_t* result(const Substituted& query, uint32_t item, const RingTables& tables) const {
        return query.results + place(item, result_stride) * ciphertext_words(tables);
    }
    DEVICE Image image(const Substituted& query, uint32_t item, const RingTables& tables) const {
        return {source(query, item, tables), exponent, tables.log_degree};
    }
};

// The operands that some of a thread's products meet where they go, `STRIDE` values apart. All of them are loaded before
// the first result is stored. The compiler moves no load above a store that might be to the same place, so a warp would
// otherwise wait for memory once for every value.
template <class Values, uint32_t COUNT, uint32_t STRIDE>
struct Meeting {
    uint32_t first;
    typename Values::Operands operands[COUNT];

    DEVICE Meeting(const Values& values, uint32_t first, Prime p) : first(first) {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i) operands[i] = values.load(STRIDE * (first + i), p);
    }
    template <uint32_t ALL>
    DEVICE void put(const Values& values, const uint32_t (&a)[ALL], const uint32_t (&b)[ALL], Prime p) const {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; ++i)
            values.put(STRIDE * (first + i), a[first + i], b[first + i], operands[i], p);
    }
};

// What a substitution S of a node (a, b) gives: the children (a, b) + S and ((a, b) - S) X^(-2^level). Nodes and
// children are [a, b][limb][N]; `odd` is null where nobody wants it.
struct Split {
    const uint32_t* node;
    uint32_t* even;
    uint32_t* odd;
    uint32_t exponent, level;

    DEVICE static Split of(const Substituted& query, uint32_t item, const Substitution& level,
                           const RingTables& tables) {
        uint32_t* const even = level.result(query, item, tables);
        return {level.source(query, item, tables), even,
                2 * item + 1 < level.children ? even + ciphertext_words(tables) : nullptr, level.exponent, level.level};
    }

    // Where the values of a limb are.
    struct Values {
        Image::Values image_b;
        const uint32_t *node_a, *node_b;
        uint32_t *even_a, *even_b, *odd_a, *odd_b;
        const Factor* powers;
        uint32_t power, step;

        // Operands of a product's values at one place.
        struct Operands {
            uint32_t image_b, a, b;
            Factor monomial;
            bool negated;
        };
        DEVICE Operands load(uint32_t offset, Prime p) const {
            Operands o;
            o.image_b = image_b.at(offset, p), o.a = node_a[offset], o.b = node_b[offset];
            // The monomial's value is a power of the root, of which the upper N are the lower ones negated.
            const uint32_t exponent = power - reverse_bits(offset) * step;
            o.monomial = powers[reverse_bits(exponent) >> 1];
            o.negated = exponent >> 31 != 0;
            return o;
        }
        // Takes the product's values at one place: those of the image of b are added to its b.
        DEVICE void put(uint32_t offset, uint32_t a, uint32_t b, const Operands& o, Prime p) const {
            b = add(b, o.image_b, p);
            even_a[offset] = add(o.a, a, p);
            even_b[offset] = add(o.b, b, p);
            if (odd_a == nullptr) return;
            odd_a[offset] = product(o.negated ? a + p.q - o.a : o.a + p.q - a, o.monomial, p);
            odd_b[offset] = product(o.negated ? b + p.q - o.b : o.b + p.q - b, o.monomial, p);
        }
    };
    DEVICE Values values(uint32_t limb, uint32_t first, const RingTables& tables) const {
        const uint32_t log = tables.log_degree, step = 1u << level;
        const uint64_t to_b = (uint64_t)opaque(tables.limbs) << log;
        const uint64_t of_a = ((uint64_t)limb << log) + first, of_b = of_a + to_b;
        const bool both = odd != nullptr;
        return {Image{node + to_b, exponent, log}.values(limb, first),
                node + of_a,
                node + of_b,
                even + of_a,
                even + of_b,
                both ? odd + of_a : nullptr,
                both ? odd + of_b : nullptr,
                tables.powers + ((uint64_t)limb << log),
                0u - root_exponent(first, log) * step,
                step};
    }
    DEVICE static uint32_t product(uint32_t x, Factor w, Prime p) {
        return subtract_if_reached(multiply_lazy(x, w.value, w.companion, p.q), p.q);
    }
};

// What a substitution S of a ciphertext (a, b) gives where it is rotated: the image, which is S itself. Where Horner's
// rule wants it, the ciphertext before the source is added, whose place may be the result's; and where the source is to
// be the first of the images, a copy of it goes before the result. `term` and `copy` are null where they are not wanted.
struct Rotation {
    const uint32_t *source, *term;
    uint32_t *result, *copy;
    uint32_t exponent;

    DEVICE static Rotation of(const Substituted& query, uint32_t item, const Substitution& step,
                              const RingTables& tables) {
        const uint32_t* const source = step.source(query, item, tables);
        uint32_t* const result = step.result(query, item, tables);
        const uint64_t words = ciphertext_words(tables);
        return {source, step.adds != 0 ? source - words : nullptr, result, step.keeps != 0 ? result - words : nullptr,
                step.exponent};
    }

    // As those of `Split`.
    struct Values {
        Image::Values image_b;
        const uint32_t *source, *term;
        uint32_t *result, *copy;
        uint64_t to_b;

        struct Operands {
            uint32_t image_b, term_a, term_b, source_a, source_b;
        };
        DEVICE Operands load(uint32_t offset, Prime p) const {
            Operands o{};
            o.image_b = image_b.at(offset, p);
            if (term != nullptr) o.term_a = term[offset], o.term_b = term[to_b + offset];
            if (copy != nullptr) o.source_a = source[offset], o.source_b = source[to_b + offset];
            return o;
        }
        DEVICE void put(uint32_t offset, uint32_t a, uint32_t b, const Operands& o, Prime p) const {
            b = add(b, o.image_b, p);
            // Zeros where no term is wanted.
            result[offset] = add(a, o.term_a, p);
            result[to_b + offset] = add(b, o.term_b, p);
            if (copy == nullptr) return;
            copy[offset] = o.source_a;
            copy[to_b + offset] = o.source_b;
        }
    };
    DEVICE Values values(uint32_t limb, uint32_t first, const RingTables& tables) const {
        const uint32_t log = tables.log_degree;
        const uint64_t to_b = (uint64_t)opaque(tables.limbs) << log, of_a = ((uint64_t)limb << log) + first;
        return {Image{source + to_b, exponent, log}.values(limb, first),
                source + of_a,
                term != nullptr ? term + of_a : nullptr,
                result + of_a,
                copy != nullptr ? copy + of_a : nullptr,
                to_b};
    }
};

// A query whose ciphertexts play: where they are, and the selector that decides.
struct Playing {
    uint32_t* ciphertexts;
    const uint32_t* selector;
};

// Games, the same ones of every query: the firsts are `stride` words apart, and a second is `distance` words from its
// first; a selector has `of_source` words for each source.
struct Games {
    uint64_t of_source, stride, distance;

    DEVICE uint32_t* first(const Playing& query, uint32_t game) const { return query.ciphertexts + game * stride; }
    // The selector's first rows are for the digits of b (source 0), the others for those of a.
    DEVICE Difference source(const Playing& query, uint32_t game, uint32_t source, const RingTables& tables) const {
        const uint64_t polynomial = source == 0 ? (uint64_t)tables.limbs << tables.log_degree : 0;
        return {first(query, game) + polynomial, distance, tables.log_degree};
    }
};

}  // namespace spirea
