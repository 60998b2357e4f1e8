// Shares under SipHash-2-4: what each kernel does is said where its body stands, in share_tree.cuh, share_evaluate.cuh
// and share_fold.cuh.
#include "prf_siphash.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_siphash, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<SipHash>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_siphash, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<SipHash>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_siphash, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<SipHash>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_siphash, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<SipHash>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_siphash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<SipHash, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_siphash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<SipHash, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_siphash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<SipHash, Words64>(fold, constants);
}
