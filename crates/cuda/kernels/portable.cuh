// What a kernel may use of its machine: the only file that knows nvcc, NVRTC and the emulation on a CPU.
//
// A kernel is written once:
//
//     KERNEL(double_words, 256, 2, (uint32_t* words, uint32_t count)) {
//         SHARED(uint32_t, tile);
//         ...
//     }
//
// It has a C name, at most 256 threads a block, and registers for 2 blocks on a processor. `SHARED` names the
// dynamic shared memory, whose bytes the launch gives. What is a barrier, a warp operation or an instruction
// of its own goes through this header; everything else is plain C++17.
//
// Turing (compute capability 7.5) has smaller tensor operations and no copies in the background: `TURING` says where a
// kernel differs.
#pragma once

#if defined(SPIREA_EMULATION)
#include "emulation.hpp"  // the same names, as fibers on a CPU
#else

#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING 1
// A processor has 1024 threads.
#define BLOCKS_OF_PROCESSOR(threads, blocks) ((blocks) * (threads) <= 1024 ? (blocks) : 1024 / (threads))
#else
#define TURING 0
#define BLOCKS_OF_PROCESSOR(threads, blocks) (blocks)
#endif

#define DEVICE __device__ __forceinline__
#define CONSTANT __constant__
#define KERNEL(name, threads, blocks, params) \
    extern "C" __global__ void __launch_bounds__(threads, BLOCKS_OF_PROCESSOR(threads, blocks)) name params
#define SHARED(type, name)                                          \
    extern __shared__ __align__(1024) unsigned char shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(shared_bytes)

namespace spirea {

struct alignas(16) Words4 {
    uint32_t x, y, z, w;
};

// a b + c, 64 bits wide: one IMAD.WIDE. In a loop the compiler widens the factors of a plain product ahead of it and
// then multiplies 64 bits by 64; of `mad.wide` the assembler makes a product and two additions.
DEVICE uint64_t multiply_add_wide(uint32_t a, uint32_t b, uint64_t c) {
    uint64_t product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product + c;
}
// a b + c modulo 2^32: one IMAD. Of plain sums of products the compiler adds the products first.
DEVICE uint32_t multiply_add_low(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
// (high : low) in a pair of registers. Halves that are joined by a shift and an or stay where they were, and whatever
// takes them moves them together first.
DEVICE uint64_t join_words(uint32_t low, uint32_t high) {
    uint64_t word;
    asm("mov.b64 %0, {%1, %2};" : "=l"(word) : "r"(low), "r"(high));
    return word;
}
DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
DEVICE int32_t multiply_high_signed(int32_t a, int32_t b) { return __mulhi(a, b); }
// (high : low) rotated or shifted left by `bits` below 32, the upper word.
DEVICE uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t bits) { return __funnelshift_l(low, high, bits); }
// Bytes of (b : a), four selectors of four bits (`prmt`): three say which byte, the fourth replaces it by its sign.
// `__byte_perm` takes three bits only, and spends an instruction on it.
DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selectors) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selectors));
    return bytes;
}
// c + the sum of the four products of unsigned bytes (`dp4a`).
DEVICE uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

DEVICE uint32_t reverse_bits(uint32_t a) { return __brev(a); }

// The same word, of which the compiler knows nothing: what is computed from it in a loop is computed there, and takes
// no registers between.
DEVICE uint32_t opaque(uint32_t a) {
    asm volatile("" : "+r"(a));
    return a;
}

// Reads what no kernel writes while this one runs, through the first-level cache; may move across barriers.
DEVICE Words4 load_table(const Words4* from) {
    Words4 v;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

// Reads what no block reads again, past the first-level cache.
DEVICE uint32_t load_once(const uint32_t* from) {
    uint32_t value;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(from));
    return value;
}
DEVICE Words4 load_once(const Words4* from) {
    Words4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

// The same where other warps read the rest of the line of 128 bytes soon: memory gives all of it to the second-level cache.
DEVICE uint32_t load_line(const uint32_t* from) {
    uint32_t value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(value) : "l"(from));
    return value;
}

// Barriers and warp operations. All threads of a block, or all lanes of `mask`, must reach them: none may have
// returned, and blocks that use warp operations are whole warps.
DEVICE void block_barrier() { __syncthreads(); }
DEVICE void warp_barrier(uint32_t mask = 0xffffffffu) { __syncwarp(mask); }
// Some warps of a block meet, `threads` threads in all: those that give the same number, 1 to 15.
DEVICE void group_barrier(uint32_t number, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
template <class T>
DEVICE T from_lane(T value, uint32_t lane) { return __shfl_sync(0xffffffffu, value, lane); }
template <class T>
DEVICE T from_lane_xor(T value, uint32_t mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
DEVICE uint32_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

// Adds or xors to global memory at once.
DEVICE uint32_t atomic_add(uint32_t* to, uint32_t value) { return atomicAdd(to, value); }
DEVICE void atomic_add(uint64_t* to, uint64_t value) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), (unsigned long long)value);
}
DEVICE void atomic_xor(uint32_t* to, uint32_t value) { atomicXor(to, value); }

// All blocks of a cooperative launch meet. `arrived` is a word of global memory, 0 before the launch, that only
// these barriers touch; `round` counts them from 1.
DEVICE void grid_barrier(uint32_t* arrived, uint32_t round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t all = gridDim.x * gridDim.y * gridDim.z * round;
        __threadfence();
        atomicAdd(arrived, 1);
        uint32_t seen;
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(arrived));
        } while (seen < all);
    }
    __syncthreads();
}

// 16 bytes from global to shared memory, in the background; both addresses are multiples of 16. On Turing the copy is done
// at once.
DEVICE void copy_async(void* shared, const void* global) {
#if TURING
    *static_cast<Words4*>(shared) = *static_cast<const Words4*>(global);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
#endif
}
// Ends a group of copies; `copy_wait<n>` waits for all of this thread's groups but the last n, and for no copy that is
// in no group yet. What other threads copied is there after a block_barrier as well.
#if TURING
DEVICE void copy_commit() {}
template <int N>
DEVICE void copy_wait() {}
#else
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#endif

// d (16 x 8, 32 bits) += a (16 x 32 bytes, by rows) b (32 x 8 bytes, by columns), unsigned, for a whole warp. Lane l with
// g = l / 4, c = l % 4 holds a[i]: row g + 8 (i % 2), bytes 4c + 16 (i / 2) to + 3; b[i]: column g, bytes 4c + 16 i
// to + 3; d[i]: row g + 8 (i / 2), column 2c + i % 2. Turing multiplies 8 x 16 by 16 x 8, with these fragments.
DEVICE void mma_u8u8(uint32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if TURING
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(d[2 * (i % 2)]), "+r"(d[2 * (i % 2) + 1])
                     : "r"(a[i]), "r"(b[i / 2]));
    }
#else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

#if !TURING
// d (16 x 8 words) = how many ones a row of a (16 x 256 bits) and a column of b (256 x 8 bits) have in common, for a whole
// warp. Fragments are those of `mma_u8u8`, with 32 bits where it has four bytes: lane l with g = l / 4, c = l % 4 holds
// a[i]: row g + 8 (i % 2), bits 32c + 128 (i / 2) to + 31; b[i]: column g, bits 32c + 128 i to + 31; d[i]: row
// g + 8 (i / 2), column 2c + i % 2. One instruction up to compute capability 9.0; later ones have none, and the assembler
// writes many. Turing has no kernels that need it.
DEVICE void mma_common_ones(uint32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%10, %10, %10, %10};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
}
#endif

// Four 8 x 8 matrices of 16-bit values, 128 bytes each in a row of `shared`, for a whole warp: lane l gives the address
// of the 16 bytes of row l % 8 of matrix l / 8 and gets word l % 4 of row l / 4 of each.
DEVICE void load_matrices(uint32_t (&words)[2][2], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0][0]), "=r"(words[0][1]), "=r"(words[1][0]), "=r"(words[1][1])
                 : "r"((uint32_t)__cvta_generic_to_shared(shared))
                 : "memory");
}

// Products of a warpgroup, four warps that begin at a multiple of four (compute capability 9.0 only, `90a`). They run
// in the background and read registers and shared memory until they are waited for. Whoever wrote the shared memory
// hands it over with `multiplier_fence` and a barrier; `warpgroup_fence` hands over registers; then products are
// issued, and `warpgroup_commit` ends a group of them.
DEVICE void multiplier_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all groups but the last N, which do not use the rows `a`: these may change now. They are operands of the
// wait, or the compiler would give their registers away before.
template <int N>
DEVICE void warpgroup_wait(uint32_t (&a)[4]) {
    asm volatile("wgmma.wait_group.sync.aligned %4;"
                 : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])
                 : "n"(N)
                 : "memory");
}

template <int N>
DEVICE void warpgroup_wait(uint32_t (&a)[4][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %16;"
                 : "+r"(a[0][0]), "+r"(a[0][1]), "+r"(a[0][2]), "+r"(a[0][3]), "+r"(a[1][0]), "+r"(a[1][1]),
                   "+r"(a[1][2]), "+r"(a[1][3]), "+r"(a[2][0]), "+r"(a[2][1]), "+r"(a[2][2]), "+r"(a[2][3]),
                   "+r"(a[3][0]), "+r"(a[3][1]), "+r"(a[3][2]), "+r"(a[3][3])
                 : "n"(N)
                 : "memory");
}

// Where the columns of `warpgroup_mma_u8u8` lie: 16 bytes of each of 8 columns make 128 bytes in a row (a core matrix,
// as in `load_matrices`); the next 16 bytes of these columns are `leading` bytes on, the next 8 columns `stride` bytes.
// All are multiples of 16; no swizzle.
DEVICE uint64_t columns_descriptor(const void* shared, uint32_t leading, uint32_t stride) {
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(shared);
    return (uint64_t)(start >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}

// d (64 x 32, 128 or 256, 32 bits) += a (64 x 32 bytes) b (32 x 32, 128 or 256 bytes, by columns), for a warpgroup: warp w has
// rows 16 w to 16 w + 15; of these, lanes hold a and each d[j], columns 8j to 8j + 7, as in `mma_u8u8`.
#define SPIREA_D1(j) "+r"(d[j][0]), "+r"(d[j][1]), "+r"(d[j][2]), "+r"(d[j][3])
#define SPIREA_D4(j) SPIREA_D1(j), SPIREA_D1(j + 1), SPIREA_D1(j + 2), SPIREA_D1(j + 3)
#define SPIREA_D16(j) SPIREA_D4(j), SPIREA_D4(j + 4), SPIREA_D4(j + 8), SPIREA_D4(j + 12)
DEVICE void warpgroup_mma_u8u8(uint32_t (&d)[4][4], const uint32_t (&a)[4], uint64_t columns) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.u8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, 1;"
        : SPIREA_D4(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns)
        : "memory");
}
DEVICE void warpgroup_mma_u8u8(uint32_t (&d)[16][4], const uint32_t (&a)[4], uint64_t columns) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.u8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1;"
        : SPIREA_D16(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns)
        : "memory");
}
DEVICE void warpgroup_mma_u8u8(uint32_t (&d)[32][4], const uint32_t (&a)[4], uint64_t columns) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "{%128, %129, %130, %131}, %132, 1;"
        : SPIREA_D16(0), SPIREA_D16(16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns)
        : "memory");
}
// Waits for all groups and gives the sums back: the compiler moves no reader of `d` above it.
DEVICE void warpgroup_finish(uint32_t (&d)[4][4]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SPIREA_D4(0)::"memory");
}
DEVICE void warpgroup_finish(uint32_t (&d)[16][4]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SPIREA_D16(0)::"memory");
}
DEVICE void warpgroup_finish(uint32_t (&d)[32][4]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SPIREA_D16(0), SPIREA_D16(16)::"memory");
}
#undef SPIREA_D16
#undef SPIREA_D4
#undef SPIREA_D1

}  // namespace spirea
#endif
