// Shares under HighwayHash. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_highwayhash.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_highwayhash: 80 registers
// budget share_tops_together_highwayhash: 80 registers
// budget share_evaluate_highwayhash: 88 registers
// budget share_calls_highwayhash: 80 registers
// budget share_fold_bits_highwayhash: 128 registers
// budget share_fold_bits_mma_highwayhash: 128 registers
// uses share_fold_bits_mma_highwayhash(80, 86, 89, 90a): BMMA
// budget share_fold_u32_highwayhash: 128 registers
// budget share_fold_u64_highwayhash: 128 registers
SHARE_KERNELS(highwayhash, HighwayHash)
