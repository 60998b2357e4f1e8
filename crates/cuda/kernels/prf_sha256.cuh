// SHA-256 (FIPS 180-4): block i of a seed is half i % 2 of the digest of the 16 bytes of the seed and the 8 of i / 2.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// 64 rounds a digest, about 22 instructions each with its word of the schedule, for two blocks.
struct Sha256 {
    static constexpr uint32_t SHARED_BYTES = 0;
    static constexpr uint32_t GROUP_KEYS = 16;
    const FunctionConstants& constants;

    DEVICE Sha256(const FunctionConstants& constants, unsigned char*) : constants(constants) {}
    DEVICE void fill() {}

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
#pragma unroll 1
        for (int call = 0; call < N / 2; call++) {
            Words4 low, high;
            digest(seed, call, low, high);
            take(2 * call, low);
            take(2 * call + 1, high);
        }
    }

   private:
    DEVICE static uint32_t swap(uint32_t word) { return permute_bytes(word, word, 0x0123); }
    DEVICE static uint32_t rotate_right(uint32_t word, uint32_t bits) { return rotate_left(word, 32 - bits); }

    DEVICE void digest(Words4 seed, uint32_t call, Words4& low, Words4& high) const {
        // The padded message is one block: the seed, the call, a bit behind them, their length in bits.
        uint32_t w[16] = {swap(seed.x), swap(seed.y), swap(seed.z), swap(seed.w), call << 24, 0, 0x80000000, 0,
                          0,            0,            0,            0,            0,          0, 0,          192};
        constexpr uint32_t INITIAL[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        uint32_t s[8];
#pragma unroll
        for (int i = 0; i < 8; i++) s[i] = INITIAL[i];
        // 16 rounds take the schedule's words as they are; then each word makes room for the one 16 rounds on.
#pragma unroll 1
        for (int group = 0;; group++) {
#pragma unroll
            for (int i = 0; i < 16; i++) round(s, i, w[i] + constants.words[16 * group + i]);
            if (group == 3) break;
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const uint32_t a = w[(i + 1) % 16], b = w[(i + 14) % 16];
                w[i] += (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[(i + 9) % 16] +
                        (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) s[i] = swap(s[i] + INITIAL[i]);
        low = {s[0], s[1], s[2], s[3]};
        high = {s[4], s[5], s[6], s[7]};
    }

    // The round whose number is `turn` modulo 8: in place of moving the words of the state, their names turn.
    DEVICE static void round(uint32_t (&s)[8], int turn, uint32_t added) {
        const auto at = [&](int i) -> uint32_t& { return s[(i + 64 - turn) % 8]; };
        const uint32_t a = at(0), b = at(1), c = at(2), e = at(4), f = at(5), g = at(6);
        const uint32_t t = at(7) + added + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                           ((e & f) ^ (~e & g));
        at(3) += t;
        at(7) = t + (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    }
};

}  // namespace spirea
