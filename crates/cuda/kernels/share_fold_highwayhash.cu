// Shares under HighwayHash: what each kernel does is said where its body stands, in share_tree.cuh, share_evaluate.cuh
// and share_fold.cuh.
#include "prf_highwayhash.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_highwayhash, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<HighwayHash>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_highwayhash, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<HighwayHash>(keys, constants, arrived);
}

// budget: 88 registers
KERNEL(share_evaluate_highwayhash, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<HighwayHash>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_highwayhash, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<HighwayHash>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_highwayhash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<HighwayHash, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_highwayhash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<HighwayHash, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_highwayhash, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<HighwayHash, Words64>(fold, constants);
}
