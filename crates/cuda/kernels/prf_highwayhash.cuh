// HighwayHash with 256 bits of output: block i of a seed is half i % 2 of the hash of the 8 bytes of i / 2 under the
// seed twice.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// 11 updates a call, for two blocks: each has 8 products of 32 by 32 bits, 20 additions and exclusive ors of 64 bits
// and 20 byte permutations.
struct HighwayHash {
    static constexpr uint32_t SHARED_BYTES = 0;
    // Its state takes twice the registers of others.
    static constexpr uint32_t GROUP_KEYS = 12;

    DEVICE HighwayHash(const FunctionConstants&, unsigned char*) {}
    DEVICE void fill() {}

    template <int N, class Take>
    DEVICE void blocks(Words4 seed, Take take) const {
#pragma unroll 1
        for (int call = 0; call < N / 2; call++) {
            Words4 low, high;
            hash(seed, call, low, high);
            take(2 * call, low);
            take(2 * call + 1, high);
        }
    }

   private:
    // Two vectors, and two more that take up their products.
    struct State {
        uint64_t v[2][4], products[2][4];
    };

    DEVICE static void hash(Words4 seed, uint64_t message, Words4& low, Words4& high) {
        constexpr uint64_t MULTIPLIERS[2][4] = {
            {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3},
            {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377}};
        const uint64_t key[2] = {(uint64_t)seed.y << 32 | seed.x, (uint64_t)seed.w << 32 | seed.z};
        State s;
        // The message is a packet of 8 bytes: its length is added to one vector and turns the other's words.
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint64_t word = MULTIPLIERS[1][i] ^ (key[i % 2] << 32 | key[i % 2] >> 32);
            s.v[0][i] = (MULTIPLIERS[0][i] ^ key[i % 2]) + ((uint64_t)8 << 32 | 8);
            s.v[1][i] = (uint64_t)rotate_left((uint32_t)(word >> 32), 8) << 32 | rotate_left((uint32_t)word, 8);
            s.products[0][i] = MULTIPLIERS[0][i];
            s.products[1][i] = MULTIPLIERS[1][i];
        }
        const uint64_t packet[4] = {message, 0, 0, 0};
        update(s, packet);
#pragma unroll 1
        for (int i = 0; i < 10; i++) {
            const uint64_t own[4] = {turned(s.v[0][2]), turned(s.v[0][3]), turned(s.v[0][0]), turned(s.v[0][1])};
            update(s, own);
        }
        low = reduce(s.v[0][0] + s.products[0][0], s.v[0][1] + s.products[0][1], s.v[1][0] + s.products[1][0],
                     s.v[1][1] + s.products[1][1]);
        high = reduce(s.v[0][2] + s.products[0][2], s.v[0][3] + s.products[0][3], s.v[1][2] + s.products[1][2],
                      s.v[1][3] + s.products[1][3]);
    }

    DEVICE static uint64_t turned(uint64_t word) { return word << 32 | word >> 32; }

    DEVICE static void update(State& s, const uint64_t (&packet)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s.v[1][i] += s.products[0][i] + packet[i];
            s.products[0][i] ^= multiply_add_wide((uint32_t)s.v[1][i], (uint32_t)(s.v[0][i] >> 32), 0);
            s.v[0][i] += s.products[1][i];
            s.products[1][i] ^= multiply_add_wide((uint32_t)s.v[0][i], (uint32_t)(s.v[1][i] >> 32), 0);
        }
#pragma unroll
        for (int to = 0; to < 2; to++) {
            zipper_add(s.v[to][0], s.v[to][1], s.v[1 - to][0], s.v[1 - to][1]);
            zipper_add(s.v[to][2], s.v[to][3], s.v[1 - to][2], s.v[1 - to][3]);
        }
    }

    // Adds to two words the 16 bytes of a and b in the order
    // a3 b4 a2 a5 b6 a1 b7 a0, b3 a4 b2 b5 b1 a6 b0 a7, lowest first.
    DEVICE static void zipper_add(uint64_t& low, uint64_t& high, uint64_t a, uint64_t b) {
        const uint32_t a0 = (uint32_t)a, a1 = (uint32_t)(a >> 32), b0 = (uint32_t)b, b1 = (uint32_t)(b >> 32);
        const uint32_t middle = permute_bytes(a1, b1, 0x5014);  // b4 a5 a4 b5
        low += (uint64_t)permute_bytes(a0, b1, 0x0716) << 32 | permute_bytes(a0, middle, 0x5243);
        high += (uint64_t)permute_bytes(b0, a1, 0x7061) << 32 | permute_bytes(b0, middle, 0x7263);
    }

    // (b1 : b0 : a1 : a0) without its two highest bits, modulo x^128 + x^2 + x.
    DEVICE static Words4 reduce(uint64_t a0, uint64_t a1, uint64_t b0, uint64_t b1) {
        b1 &= ~(uint64_t)0 >> 2;
        const uint64_t low = a0 ^ b0 << 1 ^ b0 << 2;
        const uint64_t high = a1 ^ (b1 << 1 | b0 >> 63) ^ (b1 << 2 | b0 >> 62);
        return {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    }
};

}  // namespace spirea
