// SipHash-2-4 with 128 bits of output: block i of a seed is the tag of the 8 bytes of i under the seed.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// 12 rounds a block, each of 4 additions, 4 exclusive ors and 6 rotations of 64 bits, 2 of them by half a word: 24
// instructions.
struct SipHash {
    static constexpr uint32_t SHARED_BYTES = 0;
    static constexpr uint32_t GROUP_KEYS = 16;

    DEVICE SipHash(const FunctionConstants&, unsigned char*) {}
    DEVICE void fill() {}

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
#pragma unroll(N == 2 ? 2 : 1)
        for (int i = 0; i < N; i++) {
            take(i, tag((uint64_t)seed.y << 32 | seed.x, (uint64_t)seed.w << 32 | seed.z, i));
        }
    }

   private:
    DEVICE static uint64_t rotate(uint64_t word, uint32_t bits) {
        const uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32);
        return (uint64_t)funnel_left(low, high, bits) << 32 | funnel_left(high, low, bits);
    }
    DEVICE static void rounds(uint64_t (&v)[4], int count) {
#pragma unroll
        for (int round = 0; round < count; round++) {
            v[0] += v[1];
            v[2] += v[3];
            v[1] = rotate(v[1], 13) ^ v[0];
            v[3] = rotate(v[3], 16) ^ v[2];
            v[0] = (v[0] << 32 | v[0] >> 32) + v[3];
            v[2] += v[1];
            v[1] = rotate(v[1], 17) ^ v[2];
            v[3] = rotate(v[3], 21) ^ v[0];
            v[2] = v[2] << 32 | v[2] >> 32;
        }
    }
    // 0xee and 0xdd are what the variant with 128 bits differs by, the highest byte of the last word is the length.
    DEVICE static Words4 tag(uint64_t k0, uint64_t k1, uint64_t message) {
        uint64_t v[4] = {0x736f6d6570736575 ^ k0, 0x646f72616e646f6d ^ k1 ^ 0xee, 0x6c7967656e657261 ^ k0,
                         0x7465646279746573 ^ k1};
        v[3] ^= message;
        rounds(v, 2);
        v[0] ^= message;
        const uint64_t length = (uint64_t)8 << 56;
        v[3] ^= length;
        rounds(v, 2);
        v[0] ^= length;
        v[2] ^= 0xee;
        rounds(v, 4);
        const uint64_t low = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
        rounds(v, 4);
        const uint64_t high = v[0] ^ v[1] ^ v[2] ^ v[3];
        return {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    }
};

}  // namespace spirea
