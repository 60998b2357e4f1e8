// Functions and state of kernels that scripts/emitted translates from machine code. The translation defines the places of
// an architecture's parameters (EMITTED_PARAMETERS) and of shared memory (EMITTED_SHARED) first.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulation.hpp"

namespace emitted {

// First value of register 0 before it is written; the other registers count on from it.
constexpr uint32_t POISON = 0xbad00000u;

struct Registration {
    Registration(emulation::Kernel kernel) { emulation::register_kernel(std::move(kernel)); }
};

// Ends the launch at code that only diverged warps reach, and at a wrong jump.
[[noreturn]] void never();
// Ends the launch unless a shuffle is among all lanes of a warp.
void require_whole_warp(uint32_t limit);

inline uint64_t join(uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; }
inline void split(uint64_t value, uint32_t& low, uint32_t& high) { low = uint32_t(value), high = uint32_t(value >> 32); }
inline uint32_t lane() { return emulation::current->linear % emulation::WARP; }

// Constants: what the driver tells kernels at fixed places, and the parameters.

inline uint32_t parameter(uint32_t at, const unsigned char* parameters) {
    const emulation::BlockView& view = *emulation::view;
    if (at >= EMITTED_PARAMETERS) {
        uint32_t word;
        std::memcpy(&word, parameters + (at - EMITTED_PARAMETERS), 4);
        return word;
    }
    // Newer architectures have the sizes behind 0x360, older ones at the start.
    constexpr bool NEWER = EMITTED_PARAMETERS == 0x380;
    constexpr uint32_t DESCRIPTORS = NEWER ? 0x358 : EMITTED_PARAMETERS == 0x210 ? 0x208 : 0x118;
    switch (at) {
        case NEWER ? 0x360 : 0x0: return view.shape.x;
        case NEWER ? 0x364 : 0x4: return view.shape.y;
        case NEWER ? 0x368 : 0x8: return view.shape.z;
        case NEWER ? 0x370 : 0xc: return view.grid.x;
        case NEWER ? 0x374 : 0x10: return view.grid.y;
        case NEWER ? 0x378 : 0x14: return view.grid.z;
        // The stack's address, which kernels load and do not use.
        case NEWER ? 0x37c : 0x28: return 0;
        // Descriptors of memory.
        case DESCRIPTORS: return 0;
        case DESCRIPTORS + 4: return 0;
        default: never();
    }
}
inline uint32_t table_word(uint32_t at, const uint32_t* table) { return table[at / 4]; }

// Integers.

inline uint64_t product(uint32_t a, uint32_t b) { return uint64_t(a) * b; }
inline uint64_t signed_product(uint32_t a, uint32_t b) { return uint64_t(int64_t(int32_t(a)) * int32_t(b)); }
template <class T>
inline T least_or_greatest(T a, T b, bool least) {
    return (a < b) == least ? a : b;
}
inline uint32_t at_most(uint32_t value, uint32_t most) { return value < most ? value : most; }
inline uint32_t leading_one(uint32_t value) { return value == 0 ? ~0u : 31u - uint32_t(__builtin_clz(value)); }

// Bit 4 a + 2 b + c of the table is the result for bits a, b and c.
template <uint32_t TABLE>
inline uint32_t logic(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; row++) {
        if (TABLE >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
    return result;
}
inline bool logic_bit(bool a, bool b, bool c, uint32_t table) { return table >> (a * 4 + b * 2 + c) & 1; }

// Shifts of the pair of words (high, low), by at most 64 bits; each returns one of the words.
inline uint32_t left_low(uint32_t low, uint32_t, uint32_t count) { return count >= 32 ? 0 : low << count; }
inline uint32_t left_high(uint32_t low, uint32_t high, uint32_t count) {
    return count >= 64 ? 0 : uint32_t(join(low, high) << count >> 32);
}
inline uint32_t right_low(uint32_t low, uint32_t high, uint32_t count) {
    return count >= 64 ? 0 : uint32_t(join(low, high) >> count);
}
inline uint32_t right_high(uint32_t, uint32_t high, uint32_t count) { return count >= 32 ? 0 : high >> count; }
inline uint32_t right_signed_low(uint32_t low, uint32_t high, uint32_t count) {
    return uint32_t(int64_t(join(low, high)) >> at_most(count, 63));
}
inline uint32_t right_signed_high(uint32_t, uint32_t high, uint32_t count) {
    return uint32_t(int32_t(high) >> at_most(count, 31));
}

// Real numbers in words. They only serve divisions, whose results are exact whatever the last bit of a reciprocal is.

enum Rounding { RN, RP, RZ };
inline float real(uint32_t word) {
    float value;
    std::memcpy(&value, &word, 4);
    return value;
}
inline uint32_t bits(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    return word;
}
// Rounds a value that `double` or `long double` has exactly.
template <class T>
inline uint32_t rounded(T exact, Rounding rounding) {
    float value = float(exact);
    if (rounding == RP && T(value) < exact) value = std::nextafterf(value, INFINITY);
    if (rounding == RZ && std::fabs(T(value)) > std::fabs(exact)) value = std::nextafterf(value, 0.0f);
    return bits(value);
}
inline uint32_t to_real(uint64_t value, Rounding rounding) { return rounded<long double>(value, rounding); }
inline uint32_t multiply(uint32_t a, uint32_t b, Rounding rounding) {
    return rounded<double>(double(real(a)) * real(b), rounding);
}
inline uint32_t reciprocal(uint32_t word) { return bits(1.0f / real(word)); }
inline uint64_t to_wide(uint32_t word) {
    const float value = real(word);
    return !(value > 0) ? 0 : value >= 0x1p64f ? ~0ull : uint64_t(value);
}
inline uint32_t to_word(uint32_t word) {
    const uint64_t value = to_wide(word);
    return value > ~0u ? ~0u : uint32_t(value);
}

// Memory. Addresses of shared memory are words that begin at EMITTED_SHARED.

inline void* shared_at(uint32_t address, uint32_t bytes) {
    const emulation::BlockView& view = *emulation::view;
    if (address % bytes != 0) emulation::fail(emulation::MISALIGNED_ADDRESS, "%u bytes of shared memory at %u", bytes, address);
    const uint32_t offset = address - EMITTED_SHARED;
    if (address < EMITTED_SHARED || size_t(offset) + bytes > view.shared_bytes) {
        emulation::fail(emulation::ILLEGAL_ADDRESS, "%u bytes at %u, outside of %zu bytes of shared memory", bytes, offset,
                        view.shared_bytes);
    }
    return view.shared + offset;
}
inline void* global_at(uint64_t address, uint32_t bytes) {
    if (address % bytes != 0) {
        emulation::fail(emulation::MISALIGNED_ADDRESS, "%u bytes of global memory at %llx", bytes,
                        static_cast<unsigned long long>(address));
    }
    return reinterpret_cast<void*>(address);
}
template <size_t COUNT>
struct Words {
    uint32_t of[COUNT];
};
template <class T>
inline T load(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}
template <class T>
inline void store(void* to, const T& value) {
    std::memcpy(to, &value, sizeof(T));
}

// Operations of warps and blocks. Copies of a barrier in several branches are one barrier, as on the hardware.

void meet_block();
void meet_warp(uint32_t mask);
uint32_t xor_of_warp(uint32_t value, const emulation::Site& site = emulation::Site::current());
void widen_nibbles(uint32_t (&words)[2], uint32_t nibbles);

inline void load_matrices(uint32_t (&words)[4], const void* row, const emulation::Site& site = emulation::Site::current()) {
    emulation::MatrixRows request{row, words};
    emulation::meet_warp(emulation::LOAD_MATRICES, 0xffffffffu, &request, site);
}
// The descriptor has the address of shared memory in units of 16 bytes.
inline void begin_product(unsigned width, uint32_t* d, const uint32_t* a, uint64_t descriptor) {
    static_assert(EMITTED_SHARED % 16 == 0);
    emulation::product_begin({d, a, descriptor - EMITTED_SHARED / 16, width, emulation::current->product_groups});
}
inline void await_products(unsigned groups_left, const emulation::Site& site = emulation::Site::current()) {
    emulation::FinishProducts request{emulation::current, groups_left};
    emulation::meet_warp(emulation::FINISH_PRODUCTS, 0xffffffffu, &request, site);
}

}  // namespace emitted
