// Transforms of polynomials, by themselves: [polynomial][limb][N] in place, a block a limb of a polynomial.
//
// N = 4096 with 256 threads, N = 2048 with 128. Global memory is read and written once, in rows of twice 64 bytes.
// 12 N / 2 butterflies (or 11), 5 to 7 instructions each; shared memory and twiddles: docs/kernels/cuda-ntt.md.
#include "ntt.cuh"

namespace spirea {

template <uint32_t LOG, class B>
DEVICE void forward_kernel(uint32_t* words, const Prime* primes, const Words4* twiddles, uint32_t limbs,
                           uint32_t* exchange) {
    using N = Ntt<LOG>;
    const uint32_t limb = blockIdx.x % limbs;
    uint32_t* const polynomial = words + (uint64_t)blockIdx.x * N::DEGREE;
    uint32_t* const rows = polynomial + N::first_of_rows();
    const Prime p = primes[limb];
    uint32_t x[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) x[i] = polynomial[N::THREADS * i + threadIdx.x];
    N::template forward<B>(x, exchange, twiddles + limb * N::TABLE, p);
    N::own_to_rows(x, exchange);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) rows[N::ROW * i] = x[i];
}

template <uint32_t LOG, class B>
DEVICE void inverse_kernel(uint32_t* words, const Prime* primes, const Words4* twiddles, const Factor* scales,
                           uint32_t limbs, uint32_t* exchange) {
    using N = Ntt<LOG>;
    const uint32_t limb = blockIdx.x % limbs;
    uint32_t* const polynomial = words + (uint64_t)blockIdx.x * N::DEGREE;
    uint32_t* const rows = polynomial + N::first_of_rows();
    const Prime p = primes[limb];
    uint32_t x[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) x[i] = rows[N::ROW * i];
    N::rows_to_own(x, exchange);
    N::template inverse<B>(x, exchange, twiddles + limb * N::TABLE, scales[limb], p);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) polynomial[N::THREADS * i + threadIdx.x] = x[i];
}

}  // namespace spirea

using namespace spirea;

// Coefficients to values, both below q, for both butterflies and degrees; `twiddles` [limb][TABLE], forward.
// Values to coefficients; `twiddles` are the inverse ones, `scales` [limb] 1 / N as a factor of the butterfly.
#define TRANSFORMS(degree, log, butterfly, Butterfly)                                                            \
    KERNEL(ntt_forward_##butterfly##_##degree, degree / 16, 16384 / degree,                                      \
           (uint32_t* words, const Prime* primes, const Words4* twiddles, uint32_t limbs)) {                     \
        SHARED(uint32_t, exchange);                                                                              \
        forward_kernel<log, Butterfly>(words, primes, twiddles, limbs, exchange);                                \
    }                                                                                                            \
    KERNEL(ntt_inverse_##butterfly##_##degree, degree / 16, 16384 / degree,                                      \
           (uint32_t* words, const Prime* primes, const Words4* twiddles, const Factor* scales, uint32_t limbs)) { \
        SHARED(uint32_t, exchange);                                                                              \
        inverse_kernel<log, Butterfly>(words, primes, twiddles, scales, limbs, exchange);                        \
    }

// budget ntt_forward_shoup_4096: 64 registers
// budget ntt_inverse_shoup_4096: 64 registers
TRANSFORMS(4096, 12, shoup, Shoup)
// budget ntt_forward_shoup_2048: 64 registers
// budget ntt_inverse_shoup_2048: 64 registers
TRANSFORMS(2048, 11, shoup, Shoup)
// budget ntt_forward_montgomery_4096: 64 registers
// budget ntt_inverse_montgomery_4096: 64 registers
TRANSFORMS(4096, 12, montgomery, Montgomery)
// budget ntt_forward_montgomery_2048: 64 registers
// budget ntt_inverse_montgomery_2048: 64 registers
TRANSFORMS(2048, 11, montgomery, Montgomery)
