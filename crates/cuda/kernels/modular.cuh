// Arithmetic modulo a prime below 2^30.
#pragma once
#include "portable.cuh"

namespace spirea {

// A prime with what Montgomery's method wants of it; the host makes them (`ring/tables.rs`).
struct Prime {
    uint32_t q;
    uint32_t inverse;  // q^-1 mod 2^32
    uint32_t one;      // 2^32 mod q
    uint32_t square;   // 2^64 mod q
};

// a - m where a >= m, else a, for a < 2m: the difference wraps to a larger word where it is not wanted.
DEVICE uint32_t subtract_if_reached(uint32_t a, uint32_t m) {
    const uint32_t difference = a - m;
    return difference < a ? difference : a;
}
DEVICE uint32_t add(uint32_t a, uint32_t b, Prime p) { return subtract_if_reached(a + b, p.q); }
DEVICE uint32_t subtract(uint32_t a, uint32_t b, Prime p) { return subtract_if_reached(a + p.q - b, p.q); }
DEVICE uint32_t negate(uint32_t a, Prime p) { return a == 0 ? 0 : p.q - a; }

// t 2^-32 mod q, below q, for t < 2^32 q: t minus the multiple of q with the same lower word.
DEVICE uint32_t montgomery(uint64_t t, Prime p) {
    const uint32_t upper = (uint32_t)(t >> 32), multiple = multiply_high((uint32_t)t * p.inverse, p.q);
    const uint32_t difference = upper - multiple;
    return difference + (upper < multiple ? p.q : 0);
}
// a b 2^-32 mod q, below q, for a b < 2^32 q.
DEVICE uint32_t montgomery(uint32_t a, uint32_t b, Prime p) { return montgomery((uint64_t)a * b, p); }

// x w mod q, below 2q, for any word x: w below q with its companion floor(w 2^32 / q) (Shoup).
DEVICE uint32_t multiply_lazy(uint32_t x, uint32_t w, uint32_t companion, uint32_t q) {
    return x * w - multiply_high(x, companion) * q;
}

}  // namespace spirea
