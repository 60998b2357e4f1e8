// The negacyclic number-theoretic transform of one polynomial by one block.
//
// N = 2^LOG coefficients, N / 16 threads with 16 coefficients each in registers, three passes of four layers of
// butterflies (the last pass has LOG - 8). Thread t holds
//
//     at the coefficients' end     x[i] = coefficient t + (N / 16) i
//     between the passes           x[i] = place c + LANES i of group g, t = LANES g + c, of N / 16 places a group
//     at the values' end           x[i] = value 16 t + i
//
// Groups are of one warp, so that only the first exchange wants a barrier of the block. Every exchange reads and
// writes shared memory without bank conflicts: a group's region has LANES words of padding, which keeps the groups
// of a warp in different banks, and inside it the second exchange pads every 16th word.
//
// Twiddles are in the order of their use (`ring/twiddles.rs`): a quadruple holds two factors with their companions,
// numbers 2 j and 2 j + 1 of a pass; layer s of a pass takes numbers 2^s to 2^(s + 1) - 1. First pass: 8 quadruples.
// Second: [8][16 groups]. Third: [8][threads]. A warp's reads are of consecutive quadruples.
#pragma once
#include "modular.cuh"

namespace spirea {

// A factor with what spares its product a division; what it is, the butterfly says.
struct Factor {
    uint32_t value, companion;
};

// A prime is *wide* if it has 30 bits: a word has less room above it than above shorter ones, whose words are settled
// less often.
DEVICE bool is_wide(Prime p) { return p.q >> 29 != 0; }

// What is derived of a prime. Multiples are made as rotations, or the compiler would make each of them anew wherever it
// is added, by an instruction of its own, instead of a term of an addition of three.
struct Multiples {
    uint32_t two, four;
    uint32_t reciprocal;  // floor(2^32 / q)
    DEVICE explicit Multiples(Prime p)
        : two(funnel_left(p.q, p.q, 1)), four(funnel_left(p.q, p.q, 2)), reciprocal(0xffffffffu / p.q) {}
};

// Lazy butterflies of Harvey with Shoup's products: 3 multiplications, 2 additions and what settles. Words are
// unsigned, the companion is floor(w 2^32 / q), a product is below 2q for any word.
//
// Forward: a layer adds 2q. Wide primes: x is settled below 2q before every layer, all is below 4q < 2^32 after.
// Others: input below 4q, then 6q, 8q < 2^32, and x is settled below 4q before every second layer from there on.
// Inverse: a layer adds x and y. Words are below LIMIT q before a layer, 2q for wide primes and 4q for others, so that
// sums and differences are below 2^32; a sum is settled below LIMIT q only where its terms may be more than half of
// that.
struct Shoup {
    template <bool WIDE>
    DEVICE static constexpr bool settles(uint32_t layer) {
        return WIDE || (layer >= 2 && layer % 2 == 0);
    }
    template <bool WIDE>
    DEVICE static uint32_t settled(uint32_t x, Prime, Multiples q) {
        return subtract_if_reached(x, limit<WIDE>(q));
    }
    DEVICE static void forward(uint32_t& x, uint32_t& y, Factor w, Prime p, Multiples q) {
        const uint32_t u = x, v = multiply_lazy(y, w.value, w.companion, p.q);
        x = u + v;
        y = u + q.two - v;
    }
    template <bool WIDE>
    DEVICE static uint32_t forward_end(uint32_t x, Prime p, Multiples q) {
        return subtract_if_reached(subtract_if_reached(settled<WIDE>(x, p, q), q.two), p.q);
    }
    template <bool WIDE>
    static constexpr uint32_t LIMIT = WIDE ? 2 : 4;
    template <bool WIDE>
    DEVICE static uint32_t limit(Multiples q) {
        return WIDE ? q.two : q.four;
    }
    template <bool WIDE>
    DEVICE static void inverse(uint32_t& x, uint32_t& y, Factor w, Prime p, Multiples q) {
        const uint32_t sum = x + y, difference = x + limit<WIDE>(q) - y;
        x = sum;
        y = multiply_lazy(difference, w.value, w.companion, p.q);
    }
    template <bool WIDE>
    DEVICE static uint32_t sum_settled(uint32_t x, Prime p, Multiples q) {
        return settled<WIDE>(x, p, q);
    }
    DEVICE static uint32_t inverse_end(uint32_t x, Factor scale, Prime p) {
        return subtract_if_reached(multiply_lazy(x, scale.value, scale.companion, p.q), p.q);
    }
};

// Montgomery's products of signed words: 3 multiplications, 2 additions and what settles. The value
// is w 2^32 modulo q of magnitude below q / 2, the companion value / q modulo 2^32. A product by y is of magnitude
// below q / 2 + |y| q / 2^33, at most 3q / 4 for any word y.
//
// Forward: input of magnitude at most q. Wide primes: x is settled to at most q before every layer, all is below
// 2q < 2^31 after. Others: three layers add less than 9q / 4; before layers 3, 6 and 9 x of magnitude below
// 4q < 2^31 is settled to [0, 3q / 2): the estimate x r / 2^32 of the quotient with r = floor(2^32 / q) is off by
// less than 1 / 2, its floor short by less than 3 / 2. Inverse: all words are of magnitude at most q.
struct Montgomery {
    DEVICE static uint32_t product(uint32_t y, Factor w, Prime p) {
        const uint32_t quotient = y * w.companion;
        // The lower words of both products are equal. Of a difference of upper words the compiler would make products
        // with terms of 64 bits, whose halves have to be moved into place.
        const int64_t whole = (int64_t)(int32_t)y * (int32_t)w.value;
        return (uint32_t)((uint64_t)(whole + (int64_t)(int32_t)quotient * -(int32_t)p.q) >> 32);
    }
    // x of magnitude below 2q to one of at most q: of x and x + 2q, the smaller as words is in [0, 2q).
    DEVICE static uint32_t halved(uint32_t x, Prime p, Multiples q) { return min(x, x + q.two) - p.q; }

    template <bool WIDE>
    DEVICE static constexpr bool settles(uint32_t layer) {
        return WIDE || (layer >= 3 && layer % 3 == 0);
    }
    template <bool WIDE>
    DEVICE static uint32_t settled(uint32_t x, Prime p, Multiples q) {
        if (WIDE) return halved(x, p, q);
        return x - (uint32_t)multiply_high_signed((int32_t)x, (int32_t)q.reciprocal) * p.q;
    }
    DEVICE static void forward(uint32_t& x, uint32_t& y, Factor w, Prime p, Multiples) {
        const uint32_t u = x, v = product(y, w, p);
        x = u + v;
        y = u - v;
    }
    template <bool WIDE>
    DEVICE static uint32_t forward_end(uint32_t x, Prime p, Multiples q) {
        x = min(x, x + (WIDE ? q.two : q.four));
        return subtract_if_reached(subtract_if_reached(x, q.two), p.q);
    }
    template <bool WIDE>
    static constexpr uint32_t LIMIT = 1;
    template <bool WIDE>
    DEVICE static void inverse(uint32_t& x, uint32_t& y, Factor w, Prime p, Multiples) {
        const uint32_t sum = x + y, difference = x - y;
        x = sum;
        y = product(difference, w, p);
    }
    template <bool WIDE>
    DEVICE static uint32_t sum_settled(uint32_t x, Prime p, Multiples q) {
        return halved(x, p, q);
    }
    DEVICE static uint32_t inverse_end(uint32_t x, Factor scale, Prime p) {
        x = product(x, scale, p);
        return min(x, x + p.q);
    }
};

// A team is the threads that transform one polynomial together: a block,
struct WholeBlock {
    DEVICE static uint32_t thread() { return threadIdx.x; }
    DEVICE static void barrier() { block_barrier(); }
};
// or half of a block. Each half has a barrier of its own, so that neither waits for the other.
template <uint32_t THREADS>
struct HalfBlock {
    DEVICE static uint32_t half() { return threadIdx.x / THREADS; }
    DEVICE static uint32_t thread() { return threadIdx.x % THREADS; }
    DEVICE static void barrier() { group_barrier(1 + half(), THREADS); }
};

template <uint32_t LOG, class Team = WholeBlock>
struct Ntt {
    static constexpr uint32_t DEGREE = 1u << LOG, THREADS = DEGREE / 16;
    // Threads of a group, and words of its region in shared memory.
    static constexpr uint32_t LANES = THREADS / 16, REGION = THREADS + LANES;
    // Words of shared memory for exchanges, and quadruples of a prime's twiddles in one direction.
    static constexpr uint32_t EXCHANGE = 16 * REGION, TABLE = 8 + 8 * 16 + 8 * THREADS;
    // The third pass of degree 2^11 has three layers: its first is left out.
    static constexpr uint32_t THIRD = 12 - LOG;
    static_assert(LOG == 12 || LOG == 11, "groups of 16 or 8 threads, within a warp");

    // The layers of one pass from `FIRST` on, `BEFORE` layers into the transform. Twiddle quadruple j at j `stride`.
    // All threads branch alike: instructions for wide primes alone, predicated, would take issue slots of others.
    template <class B, uint32_t BEFORE, uint32_t FIRST>
    DEVICE static void forward_pass(uint32_t (&x)[16], const Words4* twiddles, uint32_t stride, Prime p,
                                    Multiples multiples) {
        if (is_wide(p)) {
            forward_layers<B, true, BEFORE, FIRST>(x, twiddles, stride, p, multiples);
        } else {
            forward_layers<B, false, BEFORE, FIRST>(x, twiddles, stride, p, multiples);
        }
    }
    template <class B, bool WIDE, uint32_t BEFORE, uint32_t FIRST>
    DEVICE static void forward_layers(uint32_t (&x)[16], const Words4* twiddles, uint32_t stride, Prime p,
                                      Multiples multiples) {
        if constexpr (FIRST < 4) {
            constexpr uint32_t GROUPS = 1u << FIRST, HALF = 8u >> FIRST;
            settle<B, WIDE, BEFORE, HALF>(x, p, multiples);
#pragma unroll
            for (uint32_t group = 0; group < GROUPS; ++group) {
                const Factor w = factor(twiddles, stride, GROUPS + group);
#pragma unroll
                for (uint32_t i = 2 * HALF * group; i < 2 * HALF * group + HALF; ++i)
                    B::forward(x[i], x[i + HALF], w, p, multiples);
            }
            forward_layers<B, WIDE, BEFORE + 1, FIRST + 1>(x, twiddles, stride, p, multiples);
        }
    }
    // Settles the words that layer `LAYER`, which joins x[i] and x[i + HALF], does not multiply.
    template <class B, bool WIDE, uint32_t LAYER, uint32_t HALF>
    DEVICE static void settle(uint32_t (&x)[16], Prime p, Multiples q) {
        if constexpr (B::template settles<WIDE>(LAYER)) {
#pragma unroll
            for (uint32_t i = 0; i < 16; ++i)
                if ((i & HALF) == 0) x[i] = B::template settled<WIDE>(x[i], p, q);
        }
    }
    // The same backwards, from the layer that joins neighbours to `FIRST`. Words are below LIMIT q between passes, and
    // after the last they are what a product takes.
    enum class Pass { BEGINS, GOES_ON, ENDS };
    template <class B, Pass PASS, uint32_t FIRST>
    DEVICE static void inverse_pass(uint32_t (&x)[16], const Words4* twiddles, uint32_t stride, Prime p,
                                    Multiples multiples) {
        if (is_wide(p)) {
            inverse_layers<B, true, PASS, FIRST, 3>(x, twiddles, stride, p, multiples);
        } else {
            inverse_layers<B, false, PASS, FIRST, 3>(x, twiddles, stride, p, multiples);
        }
    }
    template <class B, bool WIDE, Pass PASS, uint32_t FIRST, uint32_t LAST>
    DEVICE static void inverse_layers(uint32_t (&x)[16], const Words4* twiddles, uint32_t stride, Prime p,
                                      Multiples multiples) {
        constexpr uint32_t GROUPS = 1u << LAST, HALF = 8u >> LAST, LIMIT = B::template LIMIT<WIDE>;
        constexpr uint32_t INPUT = PASS == Pass::BEGINS ? 1 : LIMIT;
        constexpr bool END = PASS == Pass::ENDS && LAST == FIRST;
#pragma unroll
        for (uint32_t group = 0; group < GROUPS; ++group) {
            const Factor w = factor(twiddles, stride, GROUPS + group);
#pragma unroll
            for (uint32_t i = 2 * HALF * group; i < 2 * HALF * group + HALF; ++i) {
                B::template inverse<WIDE>(x[i], x[i + HALF], w, p, multiples);
                if (!END && 2 * bound(INPUT, HALF, i, LIMIT) > LIMIT)
                    x[i] = B::template sum_settled<WIDE>(x[i], p, multiples);
            }
        }
        if constexpr (LAST > FIRST) {
            inverse_layers<B, WIDE, PASS, FIRST, LAST - 1>(x, twiddles, stride, p, multiples);
        }
    }
    // x[i] is below this many q before the layer that joins it with x[i + half], in a pass that began below `input` q:
    // sums grow up to the limit, products begin anew.
    DEVICE static constexpr uint32_t bound(uint32_t input, uint32_t half, uint32_t i, uint32_t limit) {
        uint32_t bound = input;
        for (uint32_t bit = 1; bit < half; bit *= 2) bound = min((i & bit) != 0 ? 2 : 2 * bound, limit);
        return bound;
    }
    DEVICE static Factor factor(const Words4* twiddles, uint32_t stride, uint32_t number) {
        const Words4 two = load_table(twiddles + number / 2 * stride);
        return number % 2 == 0 ? Factor{two.x, two.y} : Factor{two.z, two.w};
    }

    // Where x[i] lies in the exchange between the first two passes, seen from the coefficients' end and from the
    // second pass, and in the one between the last two, seen from the second pass and from the values' end.
    DEVICE static uint32_t place_first(uint32_t i, uint32_t thread) { return REGION * i + thread; }
    DEVICE static uint32_t place_middle(uint32_t i, uint32_t thread) {
        return thread / LANES * REGION + thread % LANES + LANES * i;
    }
    DEVICE static uint32_t place_middle_padded(uint32_t i, uint32_t thread) { return place_middle(i, thread) + LANES * i / 16; }
    DEVICE static uint32_t place_last(uint32_t i, uint32_t thread) { return 17 * thread + i; }

    // Coefficients below 4q (Montgomery's: at most q in magnitude) to values below q. All threads of the block;
    // `exchange` has EXCHANGE words. Here as in the functions below, other lanes of the warp may be at work on the
    // warp's region of it before and after, but no other warp is.
    template <class B>
    DEVICE static void forward(uint32_t (&x)[16], uint32_t* exchange, const Words4* table, Prime p) {
        const uint32_t thread = opaque(Team::thread());
        const Multiples multiples(p);
        forward_pass<B, 0, 0>(x, table, 1, p, multiples);
        Team::barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_first(i, thread)] = x[i];
        Team::barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_middle(i, thread)];
        forward_pass<B, 4, 0>(x, table + 8 + thread / LANES, 16, p, multiples);
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_middle_padded(i, thread)] = x[i];
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_last(i, thread)];
        forward_pass<B, 8, THIRD>(x, table + 8 + 8 * 16 + thread, THREADS, p, multiples);
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i)
            x[i] = is_wide(p) ? B::template forward_end<true>(x[i], p, multiples)
                              : B::template forward_end<false>(x[i], p, multiples);
    }

    // Values below q to coefficients below q times `scale`, which has the factor 1 / N.
    template <class B>
    DEVICE static void inverse(uint32_t (&x)[16], uint32_t* exchange, const Words4* table, Factor scale, Prime p) {
        const uint32_t thread = opaque(Team::thread());
        const Multiples multiples(p);
        inverse_pass<B, Pass::BEGINS, THIRD>(x, table + 8 + 8 * 16 + thread, THREADS, p, multiples);
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_last(i, thread)] = x[i];
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_middle_padded(i, thread)];
        inverse_pass<B, Pass::GOES_ON, 0>(x, table + 8 + thread / LANES, 16, p, multiples);
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_middle(i, thread)] = x[i];
        Team::barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_first(i, thread)];
        Team::barrier();
        inverse_pass<B, Pass::ENDS, 0>(x, table, 1, p, multiples);
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = B::inverse_end(x[i], scale, p);
    }

    // A warp's 512 values also come in *rows* of twice 16, as memory is read and written best: x[i] = value
    // `first_of_rows()` + ROW i, 16 consecutive ones for the lanes of each half, 256 apart. Between rows and 16 consecutive
    // values a thread, shared memory is exchanged within the warp; the padding of `place_last` keeps both ways free of
    // conflicts, because 256 values are 17 times 16 words.
    static constexpr uint32_t ROW = 16;
    DEVICE static uint32_t first_of_rows() { return Team::thread() / 16 * 256 + Team::thread() % 16; }
    DEVICE static uint32_t place_row(uint32_t i, uint32_t thread) { return thread / 16 * (16 * 17) + 17 * i + thread % 16; }

    DEVICE static void own_to_rows(uint32_t (&x)[16], uint32_t* exchange) {
        const uint32_t thread = opaque(Team::thread());
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_last(i, thread)] = x[i];
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_row(i, thread)];
    }
    DEVICE static void rows_to_own(uint32_t (&x)[16], uint32_t* exchange) {
        const uint32_t thread = opaque(Team::thread());
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) exchange[place_row(i, thread)] = x[i];
        warp_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) x[i] = exchange[place_last(i, thread)];
    }
};

}  // namespace spirea
