// Replacement for nvcc, as a kernel sees it: the names of portable.cuh for a CPU whose threads are
// fibers. Every operation checks what hardware leaves undefined. If a kernel breaks the rules, the
// launch ends with a message.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "machine.hpp"

// Kernels are those of Ampere and later devices. Those of Turing are tested by their machine code (scripts/emitted).
#define TURING 0
// Always inlined, as by nvcc. Therefore no copy is left that the linker could merge with one of
// another file, which was compiled with other checks.
#define DEVICE __attribute__((always_inline)) inline
#define CONSTANT __attribute__((unused)) static
#define KERNEL(name, threads, blocks, params)                                                            \
    static void name params;                                                                             \
    static const ::emulation::Registration registered_##name(#name, threads, blocks, &name);             \
    static void name params
#define SHARED(type, name) type* const name = reinterpret_cast<type*>(::emulation::view->shared)

#define threadIdx (::emulation::current->index)
#define blockIdx (::emulation::view->index)
#define blockDim (::emulation::view->shape)
#define gridDim (::emulation::view->grid)

// Names of plain CUDA C++ that need no counterpart in the runtime.
#define __device__
#define __host__
#define __constant__ CONSTANT
#define __forceinline__ DEVICE
#define __launch_bounds__(...)

DEVICE uint32_t __umulhi(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) * b >> 32); }
DEVICE int32_t __mulhi(int32_t a, int32_t b) { return int32_t(int64_t(a) * b >> 32); }
DEVICE uint64_t __umul64hi(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)a * b >> 64); }
DEVICE int __popc(uint32_t x) { return std::popcount(x); }
DEVICE int __popcll(uint64_t x) { return std::popcount(x); }
DEVICE int __clz(uint32_t x) { return std::countl_zero(x); }
DEVICE int __clzll(uint64_t x) { return std::countl_zero(x); }
DEVICE int __ffs(uint32_t x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }
DEVICE uint32_t __brev(uint32_t x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
DEVICE uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t bits) {
    return uint32_t(((uint64_t(high) << 32 | low) << (bits & 31)) >> 32);
}
DEVICE uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t bits) {
    return uint32_t((uint64_t(high) << 32 | low) >> (bits & 31));
}
// If a selector's top bit is set, the result is the sign of the selected byte in all 8 bits.
DEVICE uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selectors) {
    const uint64_t bytes = uint64_t(b) << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t selector = selectors >> 4 * i & 15;
        uint32_t byte = uint32_t(bytes >> 8 * (selector & 7)) & 255;
        if (selector & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
template <class T>
DEVICE T __ldg(const T* from) { return *from; }
DEVICE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
DEVICE constexpr uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
DEVICE constexpr uint32_t max(uint32_t a, uint32_t b) { return a < b ? b : a; }
DEVICE constexpr int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
DEVICE constexpr int32_t max(int32_t a, int32_t b) { return a < b ? b : a; }
DEVICE constexpr uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }
DEVICE constexpr uint64_t max(uint64_t a, uint64_t b) { return a < b ? b : a; }

namespace emulation {

// Request of a shuffle: the value that this lane offers, and the lane whose value it wants.
struct Shuffle {
    uint64_t value;
    uint32_t from;
    uint64_t result;
};
extern const WarpOperation SHUFFLE, SHUFFLE_XOR, BARRIER, BALLOT;

template <class T>
DEVICE T shuffle(const WarpOperation& operation, T value, uint32_t from, const Site& site) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "a register or two");
    Shuffle request{0, from, 0};
    std::memcpy(&request.value, &value, sizeof(T));
    meet_warp(operation, 0xffffffffu, &request, site);
    std::memcpy(&value, &request.result, sizeof(T));
    return value;
}

}  // namespace emulation

namespace spirea {

using emulation::Site;

struct alignas(16) Words4 {
    uint32_t x, y, z, w;
};

DEVICE uint64_t multiply_add_wide(uint32_t a, uint32_t b, uint64_t c) { return uint64_t(a) * b + c; }
DEVICE uint32_t multiply_add_low(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }
DEVICE uint64_t join_words(uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; }
DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
DEVICE int32_t multiply_high_signed(int32_t a, int32_t b) { return __mulhi(a, b); }
DEVICE uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t bits) { return __funnelshift_l(low, high, bits); }
DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selectors) { return __byte_perm(a, b, selectors); }
DEVICE uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}

DEVICE uint32_t reverse_bits(uint32_t a) { return __brev(a); }
DEVICE uint32_t opaque(uint32_t a) { return a; }
DEVICE Words4 load_table(const Words4* from) { return *from; }
DEVICE uint32_t load_once(const uint32_t* from) { return *from; }
DEVICE uint32_t load_line(const uint32_t* from) { return *from; }
DEVICE Words4 load_once(const Words4* from) { return *from; }

DEVICE void block_barrier(const Site& site = Site::current()) { emulation::meet_block(site); }
DEVICE void group_barrier(uint32_t number, uint32_t threads, const Site& site = Site::current()) {
    emulation::meet_group(number, threads, site);
}
DEVICE void warp_barrier(uint32_t mask = 0xffffffffu, const Site& site = Site::current()) {
    emulation::meet_warp(emulation::BARRIER, mask, nullptr, site);
}
template <class T>
DEVICE T from_lane(T value, uint32_t lane, const Site& site = Site::current()) {
    return emulation::shuffle(emulation::SHUFFLE, value, lane, site);
}
template <class T>
DEVICE T from_lane_xor(T value, uint32_t mask, const Site& site = Site::current()) {
    return emulation::shuffle(emulation::SHUFFLE_XOR, value, mask, site);
}
DEVICE uint32_t ballot(bool predicate, const Site& site = Site::current()) {
    emulation::Shuffle request{predicate, 0, 0};
    emulation::meet_warp(emulation::BALLOT, 0xffffffffu, &request, site);
    return uint32_t(request.result);
}

DEVICE uint32_t atomic_add(uint32_t* to, uint32_t value) { return __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }
DEVICE void atomic_add(uint64_t* to, uint64_t value) { __atomic_fetch_add(to, value, __ATOMIC_RELAXED); }
DEVICE void atomic_xor(uint32_t* to, uint32_t value) { __atomic_fetch_xor(to, value, __ATOMIC_RELAXED); }

DEVICE void grid_barrier(uint32_t* arrived, uint32_t round, const Site& site = Site::current()) {
    emulation::meet_grid(arrived, round, site);
}

// The copy happens only at the wait that must precede the first use. A kernel that forgets this
// wait reads poison.
DEVICE void copy_async(void* shared, const void* global) { emulation::copy_begin(shared, global); }
DEVICE void copy_commit() { emulation::copy_commit(); }
template <int N>
DEVICE void copy_wait() { emulation::copy_wait(N); }

DEVICE void mma_u8u8(uint32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     const Site& site = Site::current()) {
    emulation::Fragments request{d, a, b};
    emulation::meet_warp(emulation::MMA_U8U8, 0xffffffffu, &request, site);
}

DEVICE void mma_common_ones(uint32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                            const Site& site = Site::current()) {
    emulation::Fragments request{d, a, b};
    emulation::meet_warp(emulation::MMA_COMMON_ONES, 0xffffffffu, &request, site);
}

DEVICE void load_matrices(uint32_t (&words)[2][2], const void* shared, const Site& site = Site::current()) {
    emulation::MatrixRows request{shared, &words[0][0]};
    emulation::meet_warp(emulation::LOAD_MATRICES, 0xffffffffu, &request, site);
}

// The products are computed only at the wait that must precede the next use of their operands. Rows
// or columns that change before the wait give different sums.
DEVICE void multiplier_fence() {}
DEVICE void warpgroup_fence() {}
DEVICE void warpgroup_commit() { emulation::current->product_groups++; }
template <int N, class Rows>
DEVICE void warpgroup_wait(Rows&, const Site& site = Site::current()) {
    emulation::FinishProducts request{emulation::current, N};
    emulation::meet_warp(emulation::FINISH_PRODUCTS, 0xffffffffu, &request, site);
}
DEVICE uint64_t columns_descriptor(const void* shared, uint32_t leading, uint32_t stride) {
    const uint64_t start = uint64_t(static_cast<const unsigned char*>(shared) - emulation::view->shared);
    return (start >> 4 & 0x3fff) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32;
}
template <int COLUMNS>
DEVICE void warpgroup_mma_u8u8(uint32_t (&d)[COLUMNS][4], const uint32_t (&a)[4], uint64_t columns) {
    static_assert(COLUMNS == 4 || COLUMNS == 16 || COLUMNS == 32, "the products that portable.cuh has");
    emulation::product_begin({&d[0][0], a, columns, COLUMNS, emulation::current->product_groups});
}
template <int COLUMNS>
DEVICE void warpgroup_finish(uint32_t (&)[COLUMNS][4], const Site& site = Site::current()) {
    emulation::FinishProducts request{emulation::current, 0};
    emulation::meet_warp(emulation::FINISH_PRODUCTS, 0xffffffffu, &request, site);
}

}  // namespace spirea

// In kernels, the compiler chooses which functions it inlines. It then takes less than half of the
// time. The build gives each kernel's file its own functions.
#undef DEVICE
#define DEVICE inline
