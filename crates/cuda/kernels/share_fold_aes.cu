// Shares under AES-128: what each kernel does is said where its body stands, in share_tree.cuh, share_evaluate.cuh and
// share_fold.cuh.
#include "prf_aes.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_aes128, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<Aes128>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_aes128, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<Aes128>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_aes128, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<Aes128>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_aes128, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<Aes128>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_aes128, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Aes128, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_aes128, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Aes128, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_aes128, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Aes128, Words64>(fold, constants);
}
