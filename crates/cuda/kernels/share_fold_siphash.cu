// Shares under SipHash-2-4. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_siphash.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_siphash: 80 registers
// budget share_tops_together_siphash: 80 registers
// budget share_evaluate_siphash: 80 registers
// budget share_calls_siphash: 80 registers
// budget share_fold_bits_siphash: 128 registers
// budget share_fold_bits_mma_siphash: 128 registers
// uses share_fold_bits_mma_siphash(80, 86, 89, 90a): BMMA
// budget share_fold_u32_siphash: 128 registers
// budget share_fold_u64_siphash: 128 registers
SHARE_KERNELS(siphash, SipHash)
