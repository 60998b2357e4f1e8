// Rows times shares: how rows are read, how shares lie in shared memory, and what is done with a row and its shares.
//
// A block has a tile of rows, those of one leaf of each of its subtrees, and the shares of up to 16 keys for them. A
// row is cut into lanes of 16 bytes; a thread has one lane of every `slots`-th row of the tile, and sums of it for
// every key in registers.
#pragma once
#include "share_tree.cuh"

namespace spirea {

// The 16 bytes of a lane, for the alignments that rows may have. What lies behind a row's end is read along, and
// dropped with the lane's upper bytes: buffers of rows have 32 bytes more than their rows.
struct Aligned16 {
    DEVICE static Words4 load(const uint8_t* at) { return load_once(reinterpret_cast<const Words4*>(at)); }
};
struct Aligned4 {
    DEVICE static Words4 load(const uint8_t* at) {
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(at);
        return {words[0], words[1], words[2], words[3]};
    }
};
struct Unaligned {
    DEVICE static Words4 load(const uint8_t* at) {
        const uint32_t skipped = (uint32_t)(uint64_t)at % 4;
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(at - skipped);
        const uint32_t selectors = 0x3210 + 0x1111 * skipped;
        const uint32_t w[5] = {words[0], words[1], words[2], words[3], words[4]};
        return {permute_bytes(w[0], w[1], selectors), permute_bytes(w[1], w[2], selectors),
                permute_bytes(w[2], w[3], selectors), permute_bytes(w[3], w[4], selectors)};
    }
};

// Two words of 64 bits.
struct alignas(16) Wide2 {
    uint64_t x, y;
};

// What is folded, as a type:
//
//     Group, Sum                   the group of the outputs; a lane of sums, 16 bytes
//     LOG_ROWS                     the logarithm of the outputs, and so the rows, of a leaf
//     WHOLE_WORDS                  whether rows are whole words of 32 bits
//     put(...)                     block i of the share of leaf k of the tile to its place
//     arrange(...)                 once all have put theirs, by all threads: shares as `add` wants them
//     add_lone(...), add(...)      a row, times the shares of a lone key or of all keys, to their sums
//     add(...), deposit(...)       a sum to a sum, to one in global memory
//
// `Shares` is where the shares of a tile lie; `stride` is the number of keys of a group rounded up to a multiple of 4,
// or 1. What lies in the places of keys that are not there only reaches the sums of such keys, which nobody wants.
struct Shares {
    unsigned char* bytes;
    uint32_t stride;
};

// Bits: rows are bytes, added by exclusive or.
struct Bits {
    using Group = Xor;
    using Sum = Words4;
    static constexpr uint32_t LOG_ROWS = 9;
    static constexpr bool WHOLE_WORDS = false;

    // Of a lone key the 16 words of leaf k from 17 k on. Of several keys 64 rows at a time: word h of them, h = 0 or 1,
    // of the key in place p at 32 (8 k + g) + 16 h + p, where g is the number of the 64 rows. `arrange` makes of these
    // 32 words one for each of 32 rows: the bits of row r for all places are the lower half of word r, those of row 32
    // + r the upper.
    DEVICE static void put(const Shares& shares, uint32_t k, uint32_t key, uint32_t i, Words4 block) {
        uint32_t* const words = reinterpret_cast<uint32_t*>(shares.bytes);
        const bool lone = shares.stride == 1;
        uint32_t* const to = words + (lone ? 17 * k : 256 * k + place_of(key));
        const uint32_t step = lone ? 1 : 16;
        to[(4 * i) * step] = block.x;
        to[(4 * i + 1) * step] = block.y;
        to[(4 * i + 2) * step] = block.z;
        to[(4 * i + 3) * step] = block.w;
    }

    // Warps transpose 32 x 32 bits: lane l has a row of bits, and in the end a column.
    DEVICE static void arrange(const Shares& shares, uint32_t subtrees) {
        if (shares.stride == 1) return;
        uint32_t* const words = reinterpret_cast<uint32_t*>(shares.bytes);
        const uint32_t lane = threadIdx.x % 32;
        for (uint32_t i = threadIdx.x / 32; i < 8 * subtrees; i += THREADS / 32) {
            uint32_t word = words[32 * i + lane];
#pragma unroll
            for (uint32_t j = 16; j > 0; j /= 2) {
                // Ones where bit j of the column is 0.
                const uint32_t kept = 0xffffffffu / ((1u << j) + 1);
                const uint32_t other = from_lane_xor(word, j);
                word = lane & j ? (word & ~kept) | (other >> j & kept) : (word & kept) | (other & kept) << j;
            }
            words[32 * i + lane] = word;
        }
        block_barrier();
    }

    DEVICE static void add_lone(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Words4& sum) {
        const uint32_t word = reinterpret_cast<const uint32_t*>(shares.bytes)[17 * k + row / 32];
        sum = xor_words(sum, and_mask(lane, 0u - (word >> row % 32 & 1)));
    }

    template <uint32_t KEYS>
    DEVICE static void add(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Words4 (&sums)[KEYS]) {
        const uint32_t word = reinterpret_cast<const uint32_t*>(shares.bytes)[32 * (8 * k + row / 64) + row % 32];
        const uint32_t bits = row & 32 ? word >> 16 : word & 0xffff;
        // Four keys' bits stand in the signs of the bytes, where a permutation spreads them; a shift brings the next
        // four.
        uint32_t signs = bits | bits << 20;
#pragma unroll
        for (uint32_t four = 0; four < KEYS / 4; four++) {
            if (4 * four >= shares.stride) break;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t mask = permute_bytes(signs, 0, 0x1111 * (8 + i));
                sums[4 * four + i] = xor_words(sums[4 * four + i], and_mask(lane, mask));
            }
            signs <<= 1;
        }
    }

    DEVICE static void add(Words4& sum, Words4 other) { sum = xor_words(sum, other); }
    DEVICE static void deposit(uint32_t* to, Words4 sum) {
        atomic_xor(to, sum.x);
        atomic_xor(to + 1, sum.y);
        atomic_xor(to + 2, sum.z);
        atomic_xor(to + 3, sum.w);
    }

   private:
    // Key 4 f + i has the place whose bit is the sign of byte i after f shifts: 7 - f, 15 - f, 3 - f, 11 - f.
    DEVICE static uint32_t place_of(uint32_t key) { return (0x0b030f07u >> 8 * (key % 4) & 15) - key / 4; }
};

// Words of 32 bits, added modulo 2^32.
struct Words32 {
    using Group = Add<1>;
    using Sum = Words4;
    static constexpr uint32_t LOG_ROWS = 4;
    static constexpr bool WHOLE_WORDS = true;

    // Row r of leaf k has its shares at (17 k + r) stride: a row of room between leaves, so that threads that put their
    // leaves at the same time meet in no bank.
    DEVICE static uint32_t at(const Shares& shares, uint32_t k, uint32_t row) {
        return (((1 << LOG_ROWS) + 1) * k + row) * shares.stride;
    }
    DEVICE static void put(const Shares& shares, uint32_t k, uint32_t key, uint32_t i, Words4 block) {
        uint32_t* const to = reinterpret_cast<uint32_t*>(shares.bytes) + at(shares, k, 0) + key;
        to[(4 * i) * shares.stride] = block.x;
        to[(4 * i + 1) * shares.stride] = block.y;
        to[(4 * i + 2) * shares.stride] = block.z;
        to[(4 * i + 3) * shares.stride] = block.w;
    }
    DEVICE static void arrange(const Shares&, uint32_t) {}

    DEVICE static void multiply_add(uint32_t share, Words4 lane, Words4& sum) {
        sum = {sum.x + share * lane.x, sum.y + share * lane.y, sum.z + share * lane.z, sum.w + share * lane.w};
    }
    DEVICE static void add_lone(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Words4& sum) {
        multiply_add(reinterpret_cast<const uint32_t*>(shares.bytes)[at(shares, k, row)], lane, sum);
    }
    template <uint32_t KEYS>
    DEVICE static void add(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Words4 (&sums)[KEYS]) {
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(shares.bytes) + at(shares, k, row);
#pragma unroll
        for (uint32_t four = 0; four < KEYS / 4; four++) {
            if (4 * four >= shares.stride) break;
            const Words4 share = *reinterpret_cast<const Words4*>(words + 4 * four);
            multiply_add(share.x, lane, sums[4 * four]);
            multiply_add(share.y, lane, sums[4 * four + 1]);
            multiply_add(share.z, lane, sums[4 * four + 2]);
            multiply_add(share.w, lane, sums[4 * four + 3]);
        }
    }

    DEVICE static void add(Words4& sum, Words4 other) {
        sum = {sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
    }
    DEVICE static void deposit(uint32_t* to, Words4 sum) {
        atomic_add(to, sum.x);
        atomic_add(to + 1, sum.y);
        atomic_add(to + 2, sum.z);
        atomic_add(to + 3, sum.w);
    }
};

// Words of 64 bits, added modulo 2^64; a product is one of 32 by 32 bits and two of which only the lower half counts.
struct Words64 {
    using Group = Add<2>;
    using Sum = Wide2;
    static constexpr uint32_t LOG_ROWS = 3;
    static constexpr bool WHOLE_WORDS = true;

    // As with 32 bits.
    DEVICE static uint32_t at(const Shares& shares, uint32_t k, uint32_t row) {
        return (((1 << LOG_ROWS) + 1) * k + row) * shares.stride;
    }
    DEVICE static void put(const Shares& shares, uint32_t k, uint32_t key, uint32_t i, Words4 block) {
        uint64_t* const to = reinterpret_cast<uint64_t*>(shares.bytes) + at(shares, k, 0) + key;
        to[(2 * i) * shares.stride] = join_words(block.x, block.y);
        to[(2 * i + 1) * shares.stride] = join_words(block.z, block.w);
    }
    DEVICE static void arrange(const Shares&, uint32_t) {}

    DEVICE static void multiply_add(uint64_t share, Words4 lane, Wide2& sum) {
        sum.x = product(share, lane.x, lane.y, sum.x);
        sum.y = product(share, lane.z, lane.w, sum.y);
    }
    // share (high : low) + sum: one product whose upper half counts, and two words for the upper one.
    DEVICE static uint64_t product(uint64_t share, uint32_t low, uint32_t high, uint64_t sum) {
        const uint64_t whole = multiply_add_wide((uint32_t)share, low, sum);
        const uint32_t upper = multiply_add_low((uint32_t)(share >> 32), low, (uint32_t)(whole >> 32));
        return join_words((uint32_t)whole, multiply_add_low((uint32_t)share, high, upper));
    }
    DEVICE static void add_lone(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Wide2& sum) {
        multiply_add(reinterpret_cast<const uint64_t*>(shares.bytes)[at(shares, k, row)], lane, sum);
    }
    template <uint32_t KEYS>
    DEVICE static void add(const Shares& shares, uint32_t k, uint32_t row, Words4 lane, Wide2 (&sums)[KEYS]) {
        const uint64_t* const words = reinterpret_cast<const uint64_t*>(shares.bytes) + at(shares, k, row);
#pragma unroll
        for (uint32_t four = 0; four < KEYS / 4; four++) {
            if (4 * four >= shares.stride) break;
#pragma unroll
            for (uint32_t i = 0; i < 4; i += 2) {
                const Wide2 two = *reinterpret_cast<const Wide2*>(words + 4 * four + i);
                multiply_add(two.x, lane, sums[4 * four + i]);
                multiply_add(two.y, lane, sums[4 * four + i + 1]);
            }
        }
    }

    DEVICE static void add(Wide2& sum, Wide2 other) { sum = {sum.x + other.x, sum.y + other.y}; }
    DEVICE static void deposit(uint32_t* to, Wide2 sum) {
        uint64_t* const words = reinterpret_cast<uint64_t*>(to);
        atomic_add(words, sum.x);
        atomic_add(words + 1, sum.y);
    }
};

}  // namespace spirea
