// What pseudorandom functions expand: seeds of 128 bits, as in `crates/dpf`.
//
// A function F is a type with this interface; `Words4` is a seed or a block, x its lowest word, and a seed's lowest
// bit is 0.
//
//     static constexpr uint32_t SHARED_BYTES;            // of tables in a block's shared memory, a multiple of 1024
//     static constexpr uint32_t GROUP_KEYS;              // for whose sums folds have registers beside it: 16 or less
//     F(const FunctionConstants& constants, unsigned char* shared);
//     void fill();                                       // the tables, by all threads; a barrier must follow
//     template <int N, class Take>
//     void blocks(Words4 seed, Take take) const;         // take(i, block i) for i = 0 to N - 1, N is 2 or 4
//
// Blocks are taken one by one, and calls for a leaf are in a loop, so that registers need not hold all of it. Objects
// hold pointers only: a thread makes its own.
#pragma once
#include "portable.cuh"

namespace spirea {

// Numbers of a function that the host computes (`src/shares/constants.rs`): AES has its round keys in `words`, those of
// rounds 1 to 9 turned by half a word, and T0 in `table`; SHA-256 has its 64 round constants in `words`.
struct FunctionConstants {
    uint32_t words[64];
    const uint32_t* table;
};

DEVICE uint32_t rotate_left(uint32_t word, uint32_t bits) { return funnel_left(word, word, bits); }
DEVICE Words4 xor_words(Words4 a, Words4 b) { return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w}; }
DEVICE Words4 and_mask(Words4 a, uint32_t mask) { return {a.x & mask, a.y & mask, a.z & mask, a.w & mask}; }

}  // namespace spirea
