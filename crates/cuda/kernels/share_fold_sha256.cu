// Shares under SHA-256: what each kernel does is said where its body stands, in share_tree.cuh, share_evaluate.cuh and
// share_fold.cuh.
#include "prf_sha256.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_sha256, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<Sha256>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_sha256, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<Sha256>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_sha256, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<Sha256>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_sha256, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<Sha256>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_sha256, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Sha256, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_sha256, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Sha256, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_sha256, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Sha256, Words64>(fold, constants);
}
