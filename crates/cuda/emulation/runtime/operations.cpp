// Joint operations of lanes, and deferred copies.
#include <cstring>

#include "block.hpp"
#include "emulation.hpp"

namespace emulation {

namespace {

template <class Each>
void for_lanes(uint32_t mask, Each each) {
    for (; mask != 0; mask &= mask - 1) each(unsigned(__builtin_ctz(mask)));
}

Shuffle& shuffle_of(void* const* requests, unsigned lane) { return *static_cast<Shuffle*>(requests[lane]); }

const char* nothing(void* const*, uint32_t, unsigned*) { return nullptr; }

template <bool XOR>
const char* exchange(void* const* requests, uint32_t mask, unsigned* failing_lane) {
    const char* message = nullptr;
    for_lanes(mask, [&](unsigned lane) {
        Shuffle& mine = shuffle_of(requests, lane);
        uint32_t from = mine.from;
        if (XOR) from = (lane ^ mine.from) < WARP ? lane ^ mine.from : lane;
        from %= WARP;
        if (mask >> from & 1) {
            mine.result = shuffle_of(requests, from).value;
        } else {
            *failing_lane = lane;
            message = "reads a lane outside of the mask";
        }
    });
    return message;
}

const char* vote(void* const* requests, uint32_t mask, unsigned*) {
    uint64_t votes = 0;
    for_lanes(mask, [&](unsigned lane) { votes |= shuffle_of(requests, lane).value << lane; });
    for_lanes(mask, [&](unsigned lane) { shuffle_of(requests, lane).result = votes; });
    return nullptr;
}

// Rows of the left factor and columns of the right factor, widened to 16-bit integers for pmaddwd.
struct Factors {
    int16_t rows[16][32], columns[8][32];
};

#if defined(__SANITIZE_ADDRESS__)
#define WIDEST_VECTORS
#else
#define WIDEST_VECTORS __attribute__((target_clones("avx2", "default")))
#endif

WIDEST_VECTORS void dot_products(const Factors& factors, int32_t (&sums)[16][8]) {
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned column = 0; column < 8; column++) {
            int32_t sum = 0;
            for (unsigned k = 0; k < 32; k++) sum += factors.rows[row][k] * factors.columns[column][k];
            sums[row][column] = sum;
        }
    }
}

// Gathers fragments in the layout of portable.cuh, multiplies them and adds the products to the
// lanes' sums.
const char* multiply(void* const* requests, uint32_t, unsigned*) {
    uint8_t a[16][32], b[8][32];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const auto& mine = *static_cast<const Fragments*>(requests[lane]);
        const unsigned g = lane / 4, c = lane % 4;
        for (unsigned i = 0; i < 4; i++) std::memcpy(&a[g + 8 * (i % 2)][4 * c + 16 * (i / 2)], &mine.a[i], 4);
        for (unsigned i = 0; i < 2; i++) std::memcpy(&b[g][4 * c + 16 * i], &mine.b[i], 4);
    }
    Factors factors;
    for (unsigned i = 0; i < 16 * 32; i++) factors.rows[i / 32][i % 32] = a[i / 32][i % 32];
    for (unsigned i = 0; i < 8 * 32; i++) factors.columns[i / 32][i % 32] = b[i / 32][i % 32];
    int32_t sums[16][8];
    dot_products(factors, sums);
    for (unsigned lane = 0; lane < WARP; lane++) {
        const auto& mine = *static_cast<const Fragments*>(requests[lane]);
        const unsigned g = lane / 4, c = lane % 4;
        for (unsigned i = 0; i < 4; i++) mine.d[i] += uint32_t(sums[g + 8 * (i / 2)][2 * c + i % 2]);
    }
    return nullptr;
}

// Ones that rows of a and columns of b have in common: words of 32 bits in the places of four bytes.
const char* count_common_ones(void* const* requests, uint32_t, unsigned*) {
    uint32_t a[16][8], b[8][8];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const auto& mine = *static_cast<const Fragments*>(requests[lane]);
        const unsigned g = lane / 4, c = lane % 4;
        for (unsigned i = 0; i < 4; i++) a[g + 8 * (i % 2)][c + 4 * (i / 2)] = mine.a[i];
        for (unsigned i = 0; i < 2; i++) b[g][c + 4 * i] = mine.b[i];
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        const auto& mine = *static_cast<const Fragments*>(requests[lane]);
        const unsigned g = lane / 4, c = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t *const row = a[g + 8 * (i / 2)], *const column = b[2 * c + i % 2];
            uint32_t ones = 0;
            for (unsigned k = 0; k < 8; k++) ones += uint32_t(__builtin_popcount(row[k] & column[k]));
            mine.d[i] = ones;
        }
    }
    return nullptr;
}

}  // namespace

const WarpOperation BARRIER = {"warp_barrier", nothing};
const WarpOperation SHUFFLE = {"from_lane", exchange<false>};
const WarpOperation SHUFFLE_XOR = {"from_lane_xor", exchange<true>};
const WarpOperation BALLOT = {"ballot", vote};
const WarpOperation MMA_U8U8 = {"mma_u8u8", multiply};
const WarpOperation MMA_COMMON_ONES = {"mma_common_ones", count_common_ones};

namespace {

constexpr size_t COPY = 16;
constexpr unsigned char IN_FLIGHT = 0xA5;

}  // namespace

void copy_begin(void* to, const void* from) {
    const auto to_address = reinterpret_cast<uintptr_t>(to), from_address = reinterpret_cast<uintptr_t>(from);
    if (to_address % COPY != 0 || from_address % COPY != 0) {
        fail(MISALIGNED_ADDRESS, "copy_async from %p to %p: not at multiples of 16", from, to);
    }
    const auto shared = reinterpret_cast<uintptr_t>(view->shared);
    if (to_address < shared || to_address + COPY > shared + view->shared_bytes) {
        fail(ILLEGAL_ADDRESS, "copy_async to %p, outside of the %zu bytes of shared memory", to, view->shared_bytes);
    }
    current->copies.push_back({to, from, current->groups});
    std::memset(to, IN_FLIGHT, COPY);
}

void copy_commit() { current->groups++; }

void copy_wait(unsigned groups_left) {
    auto& copies = current->copies;
    size_t done = 0;
    while (done < copies.size() && copies[done].group + groups_left < current->groups) {
        std::memcpy(copies[done].to, copies[done].from, COPY);
        done++;
    }
    copies.erase(copies.begin(), copies.begin() + ptrdiff_t(done));
}

}  // namespace emulation
