// Shares under Salsa20/20 and Salsa20/12. What each kernel does is said in share_tree.cuh, share_evaluate.cuh, share_fold.cuh and
// share_bits.cuh.
#include "prf_salsa.cuh"
#include "share_kernels.cuh"

using namespace spirea;

// budget share_tops_apart_salsa20: 80 registers
// budget share_tops_together_salsa20: 80 registers
// budget share_evaluate_salsa20: 80 registers
// budget share_calls_salsa20: 80 registers
// budget share_fold_bits_salsa20: 128 registers
// budget share_fold_bits_mma_salsa20: 128 registers
// uses share_fold_bits_mma_salsa20(80, 86, 89, 90a): BMMA
// budget share_fold_u32_salsa20: 128 registers
// budget share_fold_u64_salsa20: 128 registers
SHARE_KERNELS(salsa20, Salsa<20>)

// budget share_tops_apart_salsa12: 80 registers
// budget share_tops_together_salsa12: 80 registers
// budget share_evaluate_salsa12: 80 registers
// budget share_calls_salsa12: 80 registers
// budget share_fold_bits_salsa12: 128 registers
// budget share_fold_bits_mma_salsa12: 128 registers
// uses share_fold_bits_mma_salsa12(80, 86, 89, 90a): BMMA
// budget share_fold_u32_salsa12: 128 registers
// budget share_fold_u64_salsa12: 128 registers
SHARE_KERNELS(salsa12, Salsa<12>)
