// Salsa20 in its form for 128-bit keys: block i of a seed is the i-th 16 bytes of the keystream with counter 0.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// As many instructions as ChaCha, one more where a rotation is no byte permutation.
template <int ROUNDS>
struct Salsa {
    static constexpr uint32_t SHARED_BYTES = 0;
    static constexpr uint32_t GROUP_KEYS = 16;

    DEVICE Salsa(const FunctionConstants&, unsigned char*) {}
    DEVICE void fill() {}

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
        const uint32_t initial[16] = {0x61707865, seed.x, seed.y,     seed.z, seed.w, 0x3120646e, 0,      0,
                                      0,          0,      0x79622d36, seed.x, seed.y, seed.z,     seed.w, 0x6b206574};
        uint32_t s[16];
#pragma unroll
        for (int i = 0; i < 16; i++) s[i] = initial[i];
#pragma unroll 1
        for (int round = 0; round < ROUNDS; round += 2) {
            quarters(s, 4, 1);
            quarters(s, 1, 4);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            take(i, Words4{s[4 * i] + initial[4 * i], s[4 * i + 1] + initial[4 * i + 1],
                           s[4 * i + 2] + initial[4 * i + 2], s[4 * i + 3] + initial[4 * i + 3]});
        }
    }

   private:
    // A round: down the columns where rows are 4 apart and columns 1, along the rows where it is the other way round,
    // each from the diagonal on. Its four quarters go side by side and hide each other's latency.
    DEVICE static void quarters(uint32_t (&s)[16], int down, int across) {
        constexpr uint32_t ROTATIONS[4] = {7, 9, 13, 18};
#pragma unroll
        for (int k = 0; k < 4; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const auto at = [&](int j) { return (i + j) % 4 * down + i * across; };
                s[at(k + 1)] ^= rotate_left(s[at(k)] + s[at(k + 3)], ROTATIONS[k]);
            }
        }
    }
};

}  // namespace spirea
