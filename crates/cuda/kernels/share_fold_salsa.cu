// Shares under Salsa20/20 and Salsa20/12: what each kernel does is said where its body stands, in share_tree.cuh,
// share_evaluate.cuh and share_fold.cuh.
#include "prf_salsa.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_salsa20, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<Salsa<20>>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_salsa20, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<Salsa<20>>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_salsa20, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<Salsa<20>>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_salsa20, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<Salsa<20>>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_salsa20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<20>, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_salsa20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<20>, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_salsa20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<20>, Words64>(fold, constants);
}

// budget: 80 registers
KERNEL(share_tops_apart_salsa12, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<Salsa<12>>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_salsa12, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<Salsa<12>>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_salsa12, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<Salsa<12>>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_salsa12, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<Salsa<12>>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_salsa12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<12>, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_salsa12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<12>, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_salsa12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<Salsa<12>, Words64>(fold, constants);
}
