// What a device can do at most, measured: each kernel does one thing as fast as it goes. The host divides
// (`src/probe/rates.rs`); nothing else launches these.
//
// A kernel of an instruction runs `rounds` rounds of CHAIN x UNROLL of it in every thread: CHAIN independent chains
// hide its latency, and each step takes its operand from the next chain, so that no compiler sees through it. A round is
// 1 KiB of code: the loop stays in the instruction cache nearest to the units, and costs 3 instructions in 64.
#include "portable.cuh"

using namespace spirea;

static constexpr uint32_t CHAIN = 8, UNROLL = 8;

template <class T, class Step>
DEVICE void run_chains(uint32_t* sink, uint32_t rounds, Step step) {
    T value[CHAIN];
#pragma unroll
    for (uint32_t i = 0; i < CHAIN; i++) value[i] = (T)(threadIdx.x * 2654435761u + i * 40503u + 1) * 3;
    const uint32_t constant = blockIdx.x * 2246822519u | 1;
#pragma unroll 1
    for (uint32_t round = 0; round < rounds; round++) {
#pragma unroll
        for (uint32_t k = 0; k < CHAIN * UNROLL; k++) {
            const uint32_t i = k % CHAIN;
            value[i] = step(value[i], value[(i + 1) % CHAIN], constant);
        }
    }
    T sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < CHAIN; i++) sum ^= value[i];
    sink[blockIdx.x * blockDim.x + threadIdx.x] = (uint32_t)sum ^ (uint32_t)((uint64_t)sum >> 32);
}

#define RATE(name, type, expression)                                                                       \
    KERNEL(name, 512, 2, (uint32_t* sink, uint32_t rounds)) {                                              \
        run_chains<type>(sink, rounds, [](type own, type next, uint32_t constant) -> type {                \
            (void)next, (void)constant;                                                                    \
            return expression;                                                                             \
        });                                                                                                \
    }
// budget rate_multiply_add: 32 registers
RATE(rate_multiply_add, uint32_t, own * constant + next)
// budget rate_multiply_add_wide: 40 registers
RATE(rate_multiply_add_wide, uint64_t, multiply_add_wide((uint32_t)own, constant, own))
// budget rate_multiply_high: 32 registers
RATE(rate_multiply_high, uint32_t, multiply_high(own, next))
// budget rate_logic: 32 registers
RATE(rate_logic, uint32_t, (own & next) ^ constant)
// budget rate_permute: 32 registers
RATE(rate_permute, uint32_t, permute_bytes(own, next, 0x2105))
// budget rate_shift: 32 registers
RATE(rate_shift, uint32_t, funnel_left(own, next, 7))
// budget rate_add: 32 registers
RATE(rate_add, uint32_t, own + next + constant)

// Reads `count` groups of 16 bytes, a multiple of the number of threads times 8, and keeps a word a thread.
// budget: 64 registers
KERNEL(rate_read, 512, 2, (uint32_t* sink, const Words4* from, uint64_t count)) {
    const uint64_t threads = (uint64_t)gridDim.x * 512, thread = (uint64_t)blockIdx.x * 512 + threadIdx.x;
    uint32_t sum = 0;
    for (uint64_t at = thread; at < count; at += 8 * threads) {
        Words4 v[8];
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) v[i] = load_once(from + at + i * threads);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    sink[thread] = sum;
}

// Tensor cores from registers: 8 accumulators a warp, the same factors each round.
// budget: 64 registers
// uses: IMMA
KERNEL(rate_mma, 256, 2, (uint32_t* sink, uint32_t rounds)) {
    uint32_t a[4], b[8][2], d[8][4];
    const uint32_t seed = (blockIdx.x * 256 + threadIdx.x) * 2654435761u + 12345;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) a[i] = seed * (2 * i + 3);
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) {
        b[k][0] = seed * (2 * k + 11);
        b[k][1] = seed * (2 * k + 29);
        for (uint32_t i = 0; i < 4; i++) d[k][i] = 0;
    }
    for (uint32_t round = 0; round < rounds; round++) {
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) mma_u8u8(d[k], a, b[k]);
    }
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < 8; k++) sum ^= d[k][0] ^ d[k][1] ^ d[k][2] ^ d[k][3];
    sink[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Fills memory with pseudorandom words (a mixer of 64 bits by the word's number): databases for measurements, whose
// bits must look like those of encrypted or compressed records because a device's clock depends on them.
// budget: 32 registers
KERNEL(probe_fill, 256, 4, (Words4* to, uint64_t count, uint64_t seed)) {
    for (uint64_t i = (uint64_t)blockIdx.x * 256 + threadIdx.x; i < count; i += (uint64_t)gridDim.x * 256) {
        uint64_t words[2];
#pragma unroll
        for (uint32_t k = 0; k < 2; k++) {
            uint64_t z = (2 * i + k + 1) * 0x9e3779b97f4a7c15ull + seed;
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
            z = (z ^ z >> 27) * 0x94d049bb133111ebull;
            words[k] = z ^ z >> 31;
        }
        to[i] = {(uint32_t)words[0], (uint32_t)(words[0] >> 32), (uint32_t)words[1], (uint32_t)(words[1] >> 32)};
    }
}
