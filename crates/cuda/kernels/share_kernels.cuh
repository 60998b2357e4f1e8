// The kernels of shares, for every pseudorandom function.
#pragma once
#include "share_bits.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

// The kernel on tensor cores, where these multiply bits.
#if TURING
#define SHARE_BITS_KERNEL(name, Function)
#else
#define SHARE_BITS_KERNEL(name, Function)                                                                          \
    KERNEL(share_fold_bits_mma_##name, 256, 2, (Fold fold, FunctionConstants constants)) {                         \
        fold_bits<Function>(fold, constants);                                                                      \
    }
#endif

// The kernels of a pseudorandom function: `name` ends their names, `Function` is its type. What each does is said where
// its body stands.
#define SHARE_KERNELS(name, Function)                                                                              \
    KERNEL(share_tops_apart_##name, 256, 2, (Keys keys, FunctionConstants constants)) {                            \
        expand_tops_apart<Function>(keys, constants);                                                              \
    }                                                                                                              \
    KERNEL(share_tops_together_##name, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {      \
        expand_tops_together<Function>(keys, constants, arrived);                                                  \
    }                                                                                                              \
    KERNEL(share_evaluate_##name, 256, 2,                                                                          \
           (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {           \
        evaluate_subtrees<Function>(keys, constants, height, output, shares);                                      \
    }                                                                                                              \
    KERNEL(share_calls_##name, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {              \
        run_calls<Function>(constants, count, sink);                                                               \
    }                                                                                                              \
    KERNEL(share_fold_bits_##name, 256, 2, (Fold fold, FunctionConstants constants)) {                             \
        fold_shares<Function, Bits>(fold, constants);                                                              \
    }                                                                                                              \
    KERNEL(share_fold_u32_##name, 256, 2, (Fold fold, FunctionConstants constants)) {                              \
        fold_shares<Function, Words32>(fold, constants);                                                           \
    }                                                                                                              \
    KERNEL(share_fold_u64_##name, 256, 2, (Fold fold, FunctionConstants constants)) {                              \
        fold_shares<Function, Words64>(fold, constants);                                                           \
    }                                                                                                              \
    SHARE_BITS_KERNEL(name, Function)
