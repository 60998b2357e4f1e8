// Shares under SHA-256. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_sha256.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_sha256: 80 registers
// budget share_tops_together_sha256: 80 registers
// budget share_evaluate_sha256: 80 registers
// budget share_calls_sha256: 80 registers
// budget share_fold_bits_sha256: 128 registers
// budget share_fold_bits_mma_sha256: 128 registers
// uses share_fold_bits_mma_sha256(80, 86, 89, 90a): BMMA
// budget share_fold_u32_sha256: 128 registers
// budget share_fold_u64_sha256: 128 registers
SHARE_KERNELS(sha256, Sha256)
