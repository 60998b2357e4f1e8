// Substitutions and external products, a kernel a stage: one team of threads does all of one node, of one rotated
// ciphertext or of one game (GPIR, section 4). A team is a block, or half of a block of two items of a query, which
// share the rows of the query's key.
//
// Shared memory holds each source's residues, [limb][16][threads], which become the words of its recombined
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

    // Adds 16 terms below q times a thread's quadruples of a row of a key.
    template <class Row>
    DEVICE void add(const uint32_t (&terms)[16], const Row& row) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const Words4 ka = row.a(i);
            a[4 * i] = multiply_add_wide(terms[4 * i], ka.x, a[4 * i]);
            a[4 * i + 1] = multiply_add_wide(terms[4 * i + 1], ka.y, a[4 * i + 1]);
            a[4 * i + 2] = multiply_add_wide(terms[4 * i + 2], ka.z, a[4 * i + 2]);
            a[4 * i + 3] = multiply_add_wide(terms[4 * i + 3], ka.w, a[4 * i + 3]);
            const Words4 kb = row.b(i);
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

// Rows of a key for a block of one item: read in memory when they are wanted.
struct RowsInMemory {
    struct Row {
        const Words4* row;
        uint32_t of_polynomial, first;

        DEVICE Words4 a(uint32_t i) const { return load_table(row + fragment(first + i)); }
        DEVICE Words4 b(uint32_t i) const { return load_table(row + of_polynomial + fragment(first + i)); }
    };
    uint32_t of_polynomial;

    DEVICE void ask(const Words4*) const {}
    DEVICE void add(Sums& sums, const uint32_t (&terms)[16], const Words4* row, const Words4*) const {
        sums.add(terms, Row{row, of_polynomial, 4 * opaque(threadIdx.x)});
    }
};

// Rows of a key for the two items of a block: copied to shared memory while digits are transformed, once for both. A
// thread copies the quadruples that it and its like in the other half multiply, half 0 those of a and half 1 those of
// b. So a warp waits for one other warp only.
template <class N, class Team>
struct RowsForBoth {
    struct Row {
        const Words4* row;
        uint32_t first;

        DEVICE Words4 a(uint32_t i) const { return row[fragment(first + i)]; }
        DEVICE Words4 b(uint32_t i) const { return row[N::DEGREE / 4 + fragment(first + i)]; }
    };
    uint32_t of_polynomial;
    Words4* row;  // [a, b][N / 4]

    DEVICE static void meet() { group_barrier(3 + Team::thread() / 32, 64); }
    DEVICE void ask(const Words4* next) const {
        if (next == nullptr) return;
        const uint32_t first = 4 * opaque(Team::thread()), half = Team::half();
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t at = fragment(first + i);
            copy_async(row + half * (N::DEGREE / 4) + at, next + half * of_polynomial + at);
        }
        copy_commit();
    }
    DEVICE void add(Sums& sums, const uint32_t (&terms)[16], const Words4*, const Words4* next) const {
        copy_wait<0>();
        meet();
        sums.add(terms, Row{row, 4 * opaque(Team::thread())});
        meet();
        ask(next);
    }
    // The part of a half without an item in a row.
    DEVICE void pass(const Words4* next) const {
        copy_wait<0>();
        meet();
        meet();
        ask(next);
    }
};

// The rows of a source's digits, in the order of their use: limb by limb.
struct RowOrder {
    uint32_t limbs, levels, quads;  // of a limb

    DEVICE const Words4* row(const uint32_t* key, uint32_t limb, uint32_t number) const {
        return reinterpret_cast<const Words4*>(key) + (2 * number * limbs + limb) * quads;
    }
    // The row after that one; null after the last.
    DEVICE const Words4* next(const uint32_t* key, uint32_t limb, uint32_t number) const {
        if (number + 1 < levels) return row(key, limb, number + 1);
        return limb + 1 < limbs ? row(key, limb + 1, 0) : nullptr;
    }
};

// The residues of a source, all limbs, and their recombination.
template <class N, class Team, class Source>
DEVICE void decompose(const Source& source, const RingTables& tables, const Decomposition& decomposition,
                      uint32_t* residues, uint32_t* exchange) {
#pragma unroll 1
    for (uint32_t limb = 0; limb < tables.limbs; ++limb) {
        uint32_t x[16];
        load_residues<N>(x, source, limb, tables, decomposition, exchange);
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) residues[limb * N::DEGREE + N::THREADS * i + Team::thread()] = x[i];
    }
    if (decomposition.recombined == 0) return;
#pragma unroll 1
    for (uint32_t i = Team::thread(); i < N::DEGREE; i += N::THREADS) {
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

// A team's part of shared memory, and its rows of keys.
template <class Rows>
struct Room {
    uint32_t *residues, *exchange;
    Rows rows;
};

// The products of a source's digits with the rows of `key()`, value by value to what `sink().values` gives: a sink is
// made when it is wanted, because its addresses would take registers from the sums, and so may the key be.
template <class N, class Team, class Rows, class Source, class Sink, class Key>
DEVICE void stage(const Source& source, const Sink& sink, const Key& key, const RingTables& tables,
                  const Decomposition& decomposition, const Room<Rows>& room) {
    uint32_t *const residues = room.residues, *const exchange = room.exchange;
    const RowOrder order{tables.limbs, decomposition.levels, N::DEGREE / 4};
    room.rows.ask(order.row(key(), 0, 0));
    decompose<N, Team>(source, tables, decomposition, residues, exchange);
#pragma unroll 1
    for (uint32_t limb = 0; limb < tables.limbs; ++limb) {
        const Prime p = tables.primes[limb];
        Sums sums;
#pragma unroll 1
        for (uint32_t number = 0; number < decomposition.levels; ++number) {
            const Digit& digit = decomposition.digits[number];
            uint32_t x[16];
            if (digit.own == limb) {
                load_own<N>(x, source, limb, p, exchange);
            } else {
                const uint32_t *const word = residues + digit.word * N::DEGREE + Team::thread(),
                                     *const upper = residues + digit.upper * N::DEGREE + Team::thread();
                const uint32_t lift = digit.lift[limb];
#pragma unroll
                for (uint32_t i = 0; i < 16; ++i)
                    x[i] = field(word[N::THREADS * i], upper[N::THREADS * i], digit) + lift;
                N::template forward<Shoup>(x, exchange, tables.forward + limb * N::TABLE, p);
            }
            room.rows.add(sums, x, order.row(key(), limb, number), order.next(key(), limb, number));
            if (number % LAZY_PRODUCTS == LAZY_PRODUCTS - 1) sums.settle(p);
        }
        // Read anew: of the prime, the transforms need less.
        const Prime whole = tables.primes[opaque(limb)];
        sums.settle(whole);
        uint32_t a[16], b[16];
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            a[i] = montgomery(sums.a[i], whole);
            b[i] = montgomery(sums.b[i], whole);
        }
        auto values = sink().values(opaque(limb), opaque(N::first_of_rows()), tables);
        using Values = decltype(values);
        // The first half is on its way while the products change places.
        const Meeting<Values, 8, N::ROW> first(values, 0, whole);
        N::own_to_rows(a, exchange);
        N::own_to_rows(b, exchange);
        first.put(values, a, b, whole);
        Meeting<Values, 8, N::ROW>(values, 8, whole).put(values, a, b, whole);
    }
}

// The stage of a half without an item: it copies its part of the rows.
template <class N, class Rows>
DEVICE void idle_stage(const uint32_t* key, const RingTables& tables, const Decomposition& decomposition,
                       const Rows& rows) {
    const RowOrder order{tables.limbs, decomposition.levels, N::DEGREE / 4};
    rows.ask(order.row(key, 0, 0));
    for (uint32_t limb = 0; limb < tables.limbs; ++limb)
        for (uint32_t number = 0; number < decomposition.levels; ++number) rows.pass(order.next(key, limb, number));
}

// Teams, with the items they do and the parts of shared memory they have.
template <uint32_t LOG>
struct OneItem : WholeBlock {
    using N = Ntt<LOG>;
    using Rows = RowsInMemory;
    DEVICE static uint32_t item() { return blockIdx.x; }
    DEVICE static Room<Rows> room(uint32_t* shared, const RingTables& tables) {
        return {shared, shared + tables.limbs * N::DEGREE, {tables.limbs * (N::DEGREE / 4)}};
    }
};
template <uint32_t LOG>
struct TwoItems : HalfBlock<(1u << LOG) / 16> {
    using Half = HalfBlock<(1u << LOG) / 16>;
    using N = Ntt<LOG, Half>;
    using Rows = RowsForBoth<N, Half>;
    DEVICE static uint32_t item() { return 2 * blockIdx.x + Half::half(); }
    // [half][limb][N], [half][words of an exchange], then a row.
    DEVICE static Room<Rows> room(uint32_t* shared, const RingTables& tables) {
        const uint32_t words = tables.limbs * N::DEGREE;
        uint32_t *const exchanges = shared + 2 * words, *const row = exchanges + 2 * N::EXCHANGE;
        return {shared + Half::half() * words, exchanges + Half::half() * N::EXCHANGE,
                {words / 4, reinterpret_cast<Words4*>(row)}};
    }
};

// The source of an item's digits, whose address is read whenever values are wanted: it, too, would take registers.
template <class Team>
struct Original {
    const Substituted* queries;
    const Substitution& substitution;
    const RingTables& tables;

    DEVICE Image::Values values(uint32_t limb, uint32_t place) const {
        return substitution.image(queries[opaque(blockIdx.y)], opaque(Team::item()), tables).values(limb, place);
    }
};

// A substitution of one ciphertext, of which a `Result` makes what is wanted.
template <class Team, class Result>
DEVICE void substitute(const Substituted* queries, const Substitution& substitution, const RingTables& tables,
                       const Decomposition& decomposition, uint32_t* shared) {
    const auto sink = [&] { return Result::of(queries[opaque(blockIdx.y)], opaque(Team::item()), substitution, tables); };
    const auto key = [&] { return queries[opaque(blockIdx.y)].key; };
    stage<typename Team::N, Team>(Original<Team>{queries, substitution, tables}, sink, key, tables, decomposition,
                                  Team::room(shared, tables));
}
template <class Team, class Result>
DEVICE void substitute_two(const Substituted* queries, const Substitution& substitution, const RingTables& tables,
                           const Decomposition& decomposition, uint32_t items, uint32_t* shared) {
    if (Team::item() < items) {
        substitute<Team, Result>(queries, substitution, tables, decomposition, shared);
    } else {
        idle_stage<typename Team::N>(queries[blockIdx.y].key, tables, decomposition, Team::room(shared, tables).rows);
    }
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

        struct Operands {
            uint32_t first_a, first_b, second_b;
        };
        DEVICE Operands load(uint32_t offset, Prime) const {
            Operands o{0, first_b[offset], 0};
            if (source != 0) o.first_a = first_a[offset], o.second_b = second_b[offset];
            return o;
        }
        DEVICE void put(uint32_t offset, uint32_t a, uint32_t b, const Operands& o, Prime p) const {
            first_b[offset] = add(o.first_b, b, p);
            if (source == 0)
                second_b[offset] = a;
            else
                first_a[offset] = add(o.first_a, add(o.second_b, a, p), p);
        }
    };
    DEVICE Values values(uint32_t limb, uint32_t place, const RingTables& tables) const {
        uint32_t* const first_a = first + ((uint64_t)limb << tables.log_degree) + place;
        uint32_t* const first_b = first_a + ((uint64_t)opaque(tables.limbs) << tables.log_degree);
        return {first_a, first_b, first_b + second, source};
    }
};

// As `Original`, of a game's digits.
template <class Team>
struct Rivals {
    const Playing* queries;
    const Games& games;
    const RingTables& tables;
    uint32_t source;

    DEVICE Difference::Values values(uint32_t limb, uint32_t place) const {
        const Playing query = queries[opaque(blockIdx.y)];
        return games.source(query, opaque(Team::item()), source, tables).values(limb, place);
    }
};

template <class Team>
DEVICE void play(const Playing* queries, const Games& games, const RingTables& tables,
                 const Decomposition& decomposition, uint32_t* shared) {
    // Opaque, or the compiler would keep a flag of the first source, for which it has no register.
#pragma unroll 1
    for (uint32_t source = opaque(0); source < 2; ++source) {
        const auto sink = [&] {
            return Winner{games.first(queries[opaque(blockIdx.y)], opaque(Team::item())), games.distance, source};
        };
        const auto selector = [&] { return queries[opaque(blockIdx.y)].selector + source * games.of_source; };
        stage<typename Team::N, Team>(Rivals<Team>{queries, games, tables, source}, sink, selector, tables,
                                      decomposition, Team::room(shared, tables));
    }
}
template <class Team>
DEVICE void play_two(const Playing* queries, const Games& games, const RingTables& tables,
                     const Decomposition& decomposition, uint32_t items, uint32_t* shared) {
    if (Team::item() < items) {
        play<Team>(queries, games, tables, decomposition, shared);
        return;
    }
    for (uint32_t source = 0; source < 2; ++source)
        idle_stage<typename Team::N>(queries[blockIdx.y].selector + source * games.of_source, tables, decomposition,
                                     Team::room(shared, tables).rows);
}

}  // namespace spirea

using namespace spirea;

// Blocks: x = node, rotated ciphertext or game, or two of them; y = query. Shared memory: `Team::room`.
#define STAGES(degree, log)                                                                                     \
    KERNEL(ring_split_##degree, degree / 16, 8192 / degree,                                                     \
           (const Substituted* queries, Substitution level, RingTables tables, Decomposition decomposition)) {  \
        SHARED(uint32_t, shared);                                                                               \
        substitute<OneItem<log>, Split>(queries, level, tables, decomposition, shared);                         \
    }                                                                                                           \
    KERNEL(ring_rotation_##degree, degree / 16, 8192 / degree,                                                  \
           (const Substituted* queries, Substitution step, RingTables tables, Decomposition decomposition)) {   \
        SHARED(uint32_t, shared);                                                                               \
        substitute<OneItem<log>, Rotation>(queries, step, tables, decomposition, shared);                       \
    }                                                                                                           \
    KERNEL(ring_game_##degree, degree / 16, 8192 / degree,                                                      \
           (const Playing* queries, Games games, RingTables tables, Decomposition decomposition)) {             \
        SHARED(uint32_t, shared);                                                                               \
        play<OneItem<log>>(queries, games, tables, decomposition, shared);                                      \
    }                                                                                                           \
    KERNEL(ring_two_rotations_##degree, degree / 8, 4096 / degree,                                              \
           (const Substituted* queries, Substitution step, RingTables tables, Decomposition decomposition,      \
            uint32_t items)) {                                                                                  \
        SHARED(uint32_t, shared);                                                                               \
        substitute_two<TwoItems<log>, Rotation>(queries, step, tables, decomposition, items, shared);           \
    }                                                                                                           \
    KERNEL(ring_two_games_##degree, degree / 8, 4096 / degree,                                                  \
           (const Playing* queries, Games games, RingTables tables, Decomposition decomposition,                \
            uint32_t items)) {                                                                                  \
        SHARED(uint32_t, shared);                                                                               \
        play_two<TwoItems<log>>(queries, games, tables, decomposition, items, shared);                          \
    }

// budget ring_split_4096: 128 registers
// budget ring_rotation_4096: 128 registers
// budget ring_game_4096: 128 registers
// budget ring_two_rotations_4096: 128 registers
// budget ring_two_games_4096: 128 registers
STAGES(4096, 12)
// budget ring_split_2048: 128 registers
// budget ring_rotation_2048: 128 registers
// budget ring_game_2048: 128 registers
// budget ring_two_rotations_2048: 128 registers
// budget ring_two_games_2048: 128 registers
STAGES(2048, 11)
