#define EMITTED_PARAMETERS 0u
#define EMITTED_SHARED 0u
#include "emitted.hpp"

namespace emitted {

namespace {

const char* xor_words(void* const* requests, uint32_t mask, unsigned*) {
    uint32_t sum = 0;
    for (unsigned lane = 0; lane < emulation::WARP; lane++) {
        if (mask >> lane & 1) sum ^= *static_cast<uint32_t*>(requests[lane]);
    }
    for (unsigned lane = 0; lane < emulation::WARP; lane++) {
        if (mask >> lane & 1) *static_cast<uint32_t*>(requests[lane]) = sum;
    }
    return nullptr;
}

const emulation::WarpOperation XOR_OF_WARP = {"redux.xor", xor_words};

}  // namespace

void never() {
    emulation::fail(emulation::ILLEGAL_INSTRUCTION, "code that only diverged warps reach, or a wrong jump");
    __builtin_unreachable();
}

void require_whole_warp(uint32_t limit) {
    if (limit != 0x1f) emulation::fail(emulation::ILLEGAL_INSTRUCTION, "a shuffle with limit %x", limit);
}

void meet_block() {
    static const emulation::Site site = emulation::Site::current();
    emulation::meet_block(site);
}

void meet_warp(uint32_t mask) {
    static const emulation::Site site = emulation::Site::current();
    emulation::meet_warp(emulation::BARRIER, mask, nullptr, site);
}

uint32_t xor_of_warp(uint32_t value, const emulation::Site& site) {
    emulation::meet_warp(XOR_OF_WARP, 0xffffffffu, &value, site);
    return value;
}

void widen_nibbles(uint32_t (&words)[2], uint32_t nibbles) {
    words[0] = words[1] = 0;
    for (unsigned i = 0; i < 8; i++) words[i / 4] |= (nibbles >> 4 * i & 15) << 8 * (i % 4);
}

}  // namespace emitted
