// Shares under ChaCha20 and ChaCha12. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_chacha.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_chacha20: 80 registers
// budget share_tops_together_chacha20: 80 registers
// budget share_evaluate_chacha20: 80 registers
// budget share_calls_chacha20: 80 registers
// budget share_fold_bits_chacha20: 128 registers
// budget share_fold_bits_mma_chacha20: 128 registers
// uses share_fold_bits_mma_chacha20(80, 86, 89, 90a): BMMA
// budget share_fold_u32_chacha20: 128 registers
// budget share_fold_u64_chacha20: 128 registers
SHARE_KERNELS(chacha20, ChaCha<20>)

// budget share_tops_apart_chacha12: 80 registers
// budget share_tops_together_chacha12: 80 registers
// budget share_evaluate_chacha12: 80 registers
// budget share_calls_chacha12: 80 registers
// budget share_fold_bits_chacha12: 128 registers
// budget share_fold_bits_mma_chacha12: 128 registers
// uses share_fold_bits_mma_chacha12(80, 86, 89, 90a): BMMA
// budget share_fold_u32_chacha12: 128 registers
// budget share_fold_u64_chacha12: 128 registers
SHARE_KERNELS(chacha12, ChaCha<12>)
