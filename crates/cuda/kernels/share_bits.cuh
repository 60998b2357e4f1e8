// Shares of bits of many keys times rows, on tensor cores. An answer's bit is a sum modulo 2: the parity of the number
// of rows that have this bit and whose share is 1. Products of bits give these numbers for 256 rows at once, for 16 keys
// times 8 columns of bits, and so a row is read once for up to 64 keys.
//
// Blocks, trees and shares are those of a `Fold`; the third dimension of the grid is the part of a row, 64 words.
//
// A warp has one group of 8 words of every row. Lane l with g = l / 4, c = l % 4 reads word g of 32 rows and transposes
// these 32 x 32 bits: then it holds, for each of the word's bits, that bit of 32 rows, in the place where a product
// wants column g of its 8. So the columns of product b are bits b of the 8 words.
#pragma once
#include "share_fold.cuh"

#if !TURING
namespace spirea {

// Rows and words of a warp's tile, half of a leaf's rows.
constexpr uint32_t TILE_ROWS = 256, TILE_WORDS_OF_ROW = 8;
constexpr uint32_t WARPS = THREADS / 32;
// Keys of a product.
constexpr uint32_t PRODUCT_KEYS = 16;
// Words from the 16 of a key's share of a leaf to those of the next key: reads of fragments find 32 different banks.
constexpr uint32_t SHARE_WORDS = 20;

// Where block i of a key's share of leaf k lies: shares are words of 32 rows' bits.
struct BitWords {
    DEVICE static void put(const Shares& shares, uint32_t k, uint32_t key, uint32_t i, Words4 block) {
        uint32_t* const words = reinterpret_cast<uint32_t*>(shares.bytes) + (k * shares.stride + key) * SHARE_WORDS;
        *reinterpret_cast<Words4*>(words + 4 * i) = block;
    }
};

// The step of a transposition that exchanges bits DISTANCE apart: the upper bits of `low` with the lower ones of `high`.
template <uint32_t DISTANCE>
DEVICE void exchange_bits(uint32_t& low, uint32_t& high) {
    uint32_t lower, upper;
    if constexpr (DISTANCE == 16) {
        lower = permute_bytes(low, high, 0x5410), upper = permute_bytes(low, high, 0x7632);
    } else if constexpr (DISTANCE == 8) {
        lower = permute_bytes(low, high, 0x6240), upper = permute_bytes(low, high, 0x7351);
    } else {
        constexpr uint32_t KEPT = 0xffffffffu / ((1u << DISTANCE) + 1);
        lower = (low & KEPT) | (high << DISTANCE & ~KEPT), upper = (low >> DISTANCE & KEPT) | (high & ~KEPT);
    }
    low = lower, high = upper;
}
template <uint32_t DISTANCE>
DEVICE void exchange_bits(uint32_t (&words)[32]) {
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) {
        if ((i & DISTANCE) == 0) exchange_bits<DISTANCE>(words[i], words[i + DISTANCE]);
    }
}
// Bit j of word i becomes bit i of word j.
DEVICE void transpose_bits(uint32_t (&words)[32]) {
    exchange_bits<16>(words);
    exchange_bits<8>(words);
    exchange_bits<4>(words);
    exchange_bits<2>(words);
    exchange_bits<1>(words);
}

// A word of 32 rows from one on, of which `there` exist: the others are zeros.
DEVICE void load_words(uint32_t (&words)[32], const uint8_t* at, uint32_t row_bytes, uint32_t there) {
    if (there >= 32) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++) {
            words[i] = load_line(reinterpret_cast<const uint32_t*>(at + (uint64_t)i * row_bytes));
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++) {
            words[i] = i < there ? load_line(reinterpret_cast<const uint32_t*>(at + (uint64_t)i * row_bytes)) : 0;
        }
    }
}

// Adds a tile's products to the sums of groups of 16 keys, up to `stride` keys: word 4 n + i of the lane's sums, THREADS
// words apart, is the word of the answers that `mma_common_ones` calls d[i], for group n. `shares` is the lane's word of its
// first key.
DEVICE void fold_bits_tile(uint32_t* sums, const uint32_t (&words)[2][32], const uint32_t* shares, uint32_t stride) {
#pragma unroll 1
    for (uint32_t first = 0; first < stride; first += PRODUCT_KEYS) {
        const uint32_t a[4] = {shares[0], shares[8 * SHARE_WORDS], shares[4], shares[8 * SHARE_WORDS + 4]};
        uint32_t parities[4] = {};
#pragma unroll
        for (uint32_t bit = 0; bit < 32; bit++) {
            const uint32_t b[2] = {words[0][bit], words[1][bit]};
            uint32_t d[4];
            mma_common_ones(d, a, b);
            // The lowest bit enters at the top: after 32 steps, the first one has arrived at the bottom.
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) parities[i] = funnel_left(parities[i], d[i], 31);
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) sums[i * THREADS] ^= parities[i];
        shares += PRODUCT_KEYS * SHARE_WORDS;
        sums += 4 * THREADS;
    }
}

// Shared memory: the function's tables, the stacks, shares, [subtree][key of the group, rounded up to 16][20 words], and the
// sums, [4 words for each 16 keys][thread]. Rows are whole words.
template <class Function>
DEVICE void fold_bits(const Fold& fold, const FunctionConstants& constants) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    Words4* const stacks = reinterpret_cast<Words4*>(shared + Function::SHARED_BYTES);
    unsigned char* const room = reinterpret_cast<unsigned char*>(stacks + fold.height * THREADS);

    const uint32_t first_key = blockIdx.x % fold.groups * fold.group;
    const uint32_t keys = min(fold.group, fold.keys.count - first_key);
    const Shares shares{room, (fold.group + PRODUCT_KEYS - 1) / PRODUCT_KEYS * PRODUCT_KEYS};
    const uint64_t first = (uint64_t)(blockIdx.x / fold.groups) * fold.subtrees;
    uint32_t* const sums = reinterpret_cast<uint32_t*>(room) + fold.subtrees * shares.stride * SHARE_WORDS + threadIdx.x;
    for (uint32_t i = 0; i < shares.stride / PRODUCT_KEYS * 4; i++) sums[i * THREADS] = 0;

    // In the tree: keys of a subtree side by side.
    const uint32_t k = threadIdx.x / fold.group, key = threadIdx.x % fold.group;
    const Subtree subtree{first + k, first_key + key, fold.height, stacks + threadIdx.x};
    const bool grows = k < fold.subtrees && key < keys;

    // In the products: warps side by side have the groups of words, and those behind them other tiles. A warp that is left
    // over has none.
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
    const uint32_t row_words = fold.row_bytes / 4, first_word = blockIdx.z * WARPS * TILE_WORDS_OF_ROW;
    const uint32_t columns = min(WARPS, (row_words - first_word + TILE_WORDS_OF_ROW - 1) / TILE_WORDS_OF_ROW);
    const uint32_t takers = WARPS / columns, taker = warp / columns;
    const uint32_t group_word = first_word + warp % columns * TILE_WORDS_OF_ROW;
    // A lane without a word reads the row's last one, and drops the sums.
    const uint8_t* const from = fold.rows + (fold.first_part + blockIdx.y) * fold.part_bytes +
                                4 * min(group_word + g, row_words - 1);

    for (uint32_t leaf = 0; leaf < 1u << fold.height; leaf++) {
        // The tables are there, and the last tiles' shares are done with.
        block_barrier();
        if (grows && (subtree.index << fold.height) + leaf < fold.keys.leaf_count) {
            const Words4 node = subtree.descend(function, fold.keys, leaf);
            const Words4* const correction = fold.keys.leaves + 4 * subtree.key;
            const uint32_t mask = control_mask(node);
            function.template blocks<4>(seed_of(node), [&](int i, Words4 block) {
                BitWords::put(shares, k, key, i, Xor::share(block, correction[i], mask, fold.keys.party));
            });
        }
        block_barrier();
        if (taker >= takers) continue;
#pragma unroll 1
        for (uint32_t tile = taker; tile < 2 * fold.subtrees; tile += takers) {
            const uint64_t number = ((first + tile / 2) << fold.height) + leaf;
            const uint64_t point = 2 * TILE_ROWS * number + tile % 2 * TILE_ROWS;
            if (point >= fold.points) break;
            const uint32_t there = (uint32_t)min(fold.points - point, (uint64_t)TILE_ROWS);
            const uint8_t* const at = from + (point + 32 * c) * fold.row_bytes;
            uint32_t words[2][32];
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                const uint32_t before = TILE_ROWS / 2 * half + 32 * c;
                load_words(words[half], at + (uint64_t)(TILE_ROWS / 2 * half) * fold.row_bytes, fold.row_bytes,
                           there > before ? there - before : 0);
            }
            transpose_bits(words[0]);
            transpose_bits(words[1]);
            const uint32_t* const own = reinterpret_cast<const uint32_t*>(room) +
                                        (tile / 2 * shares.stride + g) * SHARE_WORDS + tile % 2 * 8 + c;
            fold_bits_tile(sums, words, own, shares.stride);
        }
    }
    if (taker >= takers) return;

    // Each word of an answer is in one lane of every taker.
    const uint64_t part = fold.first_part + blockIdx.y;
    for (uint32_t i = 0; i < shares.stride / PRODUCT_KEYS * 4; i++) {
        const uint32_t own = i / 4 * PRODUCT_KEYS + g + i % 4 / 2 * 8, word = group_word + 2 * c + i % 2;
        if (own < keys && word < row_words) {
            atomic_xor(fold.sums + 4 * (((first_key + own) * fold.parts + part) * fold.lanes) + word, sums[i * THREADS]);
        }
    }
}

}  // namespace spirea
#endif
