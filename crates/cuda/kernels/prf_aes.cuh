// AES-128 with one fixed key: block i of a seed s is E(x) + x with x = sigma(s + i), where + is exclusive or and
// sigma(high, low) = (high + low, high) on halves of 64 bits.
//
// A round is table look-ups: column j of the next state is T0[byte 0 of column j] + T1[byte 1 of column j + 1] +
// T2[byte 2 of column j + 2] + T3[byte 3 of column j + 3] + key, where Ti is T0 rotated by 8 i bits. Look-ups by 32
// lanes at 32 random places of one table meet in its banks; so every lane has tables of its own, in the bank of its
// number (Tezcan, "Optimization of Advanced Encryption Standard on graphics processing units", IEEE Access 2021). Here
// T0 and T1 lie side by side, 256 bytes for an entry of all lanes: then the address of an entry is its number in the
// second byte and the lane's place in the first, which is one byte permutation of the state. T2 and T3 are T0 and T1
// turned by half a word: two look-ups and the key, which comes turned from the host, are added and turn together. A
// round of a block takes 16 permutations, 16 look-ups and 12 others (3 a column), where a lone T0, of half the size,
// would take 24 more. Turing has T0 alone: a block has 64 KiB of shared memory there, which both tables would fill.
//
// Blocks of a seed differ in byte 8 of x alone. The first round has one look-up that differs, the second four, one in
// each column: everything else of the two is done once for all blocks of a seed.
#pragma once
#include "prf_node.cuh"

namespace spirea {

struct Aes128 {
    // Tables, and bytes of an entry: a word of each table for each of 32 lanes.
    static constexpr uint32_t TABLES = TURING ? 1 : 2;
    static constexpr uint32_t ENTRY_BYTES = 128 * TABLES;
    static constexpr uint32_t SHARED_BYTES = 256 * ENTRY_BYTES;
    static constexpr uint32_t GROUP_KEYS = 16;
    static constexpr int ROUNDS = 10;

    const FunctionConstants& constants;
    unsigned char* tables;
    uint32_t lane;  // the place of its word in 256 bytes

    DEVICE Aes128(const FunctionConstants& constants, unsigned char* shared)
        : constants(constants), tables(shared), lane(threadIdx.x % 32 * (256 / 32 / TABLES)) {}

    // A warp fills an entry of all lanes at a time.
    DEVICE void fill() {
        for (uint32_t entry = threadIdx.x / 32; entry < 256; entry += blockDim.x / 32) {
            const uint32_t word = constants.table[entry];
            uint32_t* const to = reinterpret_cast<uint32_t*>(tables + ENTRY_BYTES * entry) + threadIdx.x % 32;
            to[0] = word;
            if (TABLES == 2) to[32] = rotate_left(word, 8);
        }
    }

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
        // x of block 0; in others bits of i are added to z.
        const uint32_t x[4] = {seed.z, seed.w, seed.z ^ seed.x, seed.w ^ seed.y};
        uint32_t s[4];
#pragma unroll
        for (int j = 0; j < 4; j++) s[j] = x[j] ^ constants.words[j];
        // The first round, column 2 without its look-up for byte 0, which is that of i.
        const uint32_t* key = constants.words + 4;
        const uint32_t first[4] = {
            column(s, 0, key), column(s, 1, key),
            look_up<1, 1>(s[3]) ^ turned(look_up<2, 0>(s[0]) ^ look_up<3, 1>(s[1]) ^ key[2]), column(s, 3, key)};
        // The second, each column without its look-up in column 2.
        key += 4;
        const uint32_t second[4] = {
            look_up<0, 0>(first[0]) ^ look_up<1, 1>(first[1]) ^ turned(look_up<3, 1>(first[3]) ^ key[0]),
            look_up<0, 0>(first[1]) ^ turned(look_up<2, 0>(first[3]) ^ look_up<3, 1>(first[0]) ^ key[1]),
            look_up<1, 1>(first[3]) ^ turned(look_up<2, 0>(first[0]) ^ look_up<3, 1>(first[1]) ^ key[2]),
            look_up<0, 0>(first[3]) ^ look_up<1, 1>(first[0]) ^ turned(look_up<2, 0>(first[1]) ^ key[3])};
#pragma unroll 1
        for (int i = 0; i < N; i += 2) two(i, x, s[2], first[2], second, take);
    }

   private:
    // T_TABLE, 0 or 1, at byte BYTE of a column.
    template <int BYTE, int TABLE>
    DEVICE uint32_t look_up(uint32_t column) const {
        const uint32_t at = permute_bytes(column, lane, 0x7704 | BYTE << 4);
        if (TABLES == 1) {
            const uint32_t word = *reinterpret_cast<const uint32_t*>(tables + at / 2);
            return TABLE == 0 ? word : rotate_left(word, 8);
        }
        return *reinterpret_cast<const uint32_t*>(tables + at + 128 * TABLE);
    }
    DEVICE static uint32_t turned(uint32_t word) { return permute_bytes(word, word, 0x1032); }

    // Column j of the state after a round with this key, turned.
    DEVICE uint32_t column(const uint32_t (&s)[4], int j, const uint32_t* key) const {
        return look_up<0, 0>(s[j]) ^ look_up<1, 1>(s[(j + 1) % 4]) ^
               turned(look_up<2, 0>(s[(j + 2) % 4]) ^ look_up<3, 1>(s[(j + 3) % 4]) ^ key[j]);
    }
    // The same after the last round, which does not mix, without its key: the middle bytes of an entry of T0 are the
    // substituted byte.
    DEVICE uint32_t last_column(const uint32_t (&s)[4], int j) const {
        const uint32_t low = permute_bytes(look_up<0, 0>(s[j]), look_up<1, 0>(s[(j + 1) % 4]), 0x0051);
        const uint32_t high = permute_bytes(look_up<2, 0>(s[(j + 2) % 4]), look_up<3, 0>(s[(j + 3) % 4]), 0x5100);
        return permute_bytes(low, high, 0x7610);
    }

    // Blocks i and i + 1 from what they have in common: x, column 2 before the first round, and the incomplete columns.
    // Two at once hide each other's latency.
    template <class Take>
    DEVICE void two(int i, const uint32_t (&x)[4], uint32_t start, uint32_t first, const uint32_t (&second)[4],
                    Take take) const {
        uint32_t s[2][4];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t column2 = first ^ look_up<0, 0>(start ^ (uint32_t)(i + k));
            s[k][0] = second[0] ^ turned(look_up<2, 0>(column2));
            s[k][1] = second[1] ^ look_up<1, 1>(column2);
            s[k][2] = second[2] ^ look_up<0, 0>(column2);
            s[k][3] = second[3] ^ turned(look_up<3, 1>(column2));
        }
#pragma unroll 1
        for (int round = 3; round < ROUNDS; round++) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t next[4];
#pragma unroll
                for (int j = 0; j < 4; j++) next[j] = column(s[k], j, constants.words + 4 * round);
#pragma unroll
                for (int j = 0; j < 4; j++) s[k][j] = next[j];
            }
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t* const key = constants.words + 4 * ROUNDS;
            take(i + k, Words4{last_column(s[k], 0) ^ key[0] ^ x[0], last_column(s[k], 1) ^ key[1] ^ x[1],
                               last_column(s[k], 2) ^ key[2] ^ x[2] ^ (uint32_t)(i + k),
                               last_column(s[k], 3) ^ key[3] ^ x[3]});
        }
    }
};

}  // namespace spirea
