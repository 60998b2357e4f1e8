// ChaCha in Bernstein's form for 128-bit keys: block i of a seed is the i-th 16 bytes of the keystream with counter 0.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// 96 additions, exclusive ors and rotations a double round: 32 of each, so 960 instructions for 20 rounds, with the
// 16 words in registers. Rotations by 16 and 8 are byte permutations.
template <int ROUNDS>
struct ChaCha {
    static constexpr uint32_t SHARED_BYTES = 0;
    static constexpr uint32_t GROUP_KEYS = 16;

    DEVICE ChaCha(const FunctionConstants&, unsigned char*) {}
    DEVICE void fill() {}

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
        const uint32_t initial[16] = {0x61707865, 0x3120646e, 0x79622d36, 0x6b206574, seed.x, seed.y, seed.z, seed.w,
                                      seed.x,     seed.y,     seed.z,     seed.w,     0,      0,      0,      0};
        uint32_t s[16];
#pragma unroll
        for (int i = 0; i < 16; i++) s[i] = initial[i];
#pragma unroll 1
        for (int round = 0; round < ROUNDS; round += 2) {
            quarters(s, 0);
            quarters(s, 1);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            take(i, Words4{s[4 * i] + initial[4 * i], s[4 * i + 1] + initial[4 * i + 1],
                           s[4 * i + 2] + initial[4 * i + 2], s[4 * i + 3] + initial[4 * i + 3]});
        }
    }

   private:
    DEVICE static void step(uint32_t& sum, uint32_t added, uint32_t& mixed, uint32_t rotation) {
        sum += added;
        mixed ^= sum;
        mixed = rotation == 16  ? permute_bytes(mixed, mixed, 0x1032)
                : rotation == 8 ? permute_bytes(mixed, mixed, 0x2103)
                                : rotate_left(mixed, rotation);
    }
    // A round: of columns where `turn` is 0, of diagonals where it is 1, which are columns once row i is turned by i.
    // Its four quarters go side by side and hide each other's latency.
    DEVICE static void quarters(uint32_t (&s)[16], int turn) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < 4; i++) step(s[i], s[4 + (i + turn) % 4], s[12 + (i + 3 * turn) % 4], half ? 8 : 16);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                step(s[8 + (i + 2 * turn) % 4], s[12 + (i + 3 * turn) % 4], s[4 + (i + turn) % 4], half ? 7 : 12);
            }
        }
    }
};

}  // namespace spirea
