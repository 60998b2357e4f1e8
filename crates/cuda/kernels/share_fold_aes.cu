// Shares under AES-128. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_aes.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_aes128: 80 registers
// budget share_tops_together_aes128: 80 registers
// budget share_evaluate_aes128: 80 registers
// budget share_calls_aes128: 80 registers
// budget share_fold_bits_aes128: 128 registers
// budget share_fold_bits_mma_aes128: 128 registers
// uses share_fold_bits_mma_aes128(80, 86, 89, 90a): BMMA
// budget share_fold_u32_aes128: 128 registers
// budget share_fold_u64_aes128: 128 registers
SHARE_KERNELS(aes128, Aes128)
