// Shares under ChaCha20 and ChaCha12: what each kernel does is said where its body stands, in share_tree.cuh,
// share_evaluate.cuh and share_fold.cuh.
#include "prf_chacha.cuh"
#include "share_evaluate.cuh"
#include "share_fold.cuh"

using namespace spirea;

// budget: 80 registers
KERNEL(share_tops_apart_chacha20, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<ChaCha<20>>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_chacha20, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<ChaCha<20>>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_chacha20, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<ChaCha<20>>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_chacha20, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<ChaCha<20>>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_chacha20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<20>, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_chacha20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<20>, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_chacha20, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<20>, Words64>(fold, constants);
}

// budget: 80 registers
KERNEL(share_tops_apart_chacha12, 256, 2, (Keys keys, FunctionConstants constants)) {
    expand_tops_apart<ChaCha<12>>(keys, constants);
}

// budget: 80 registers
KERNEL(share_tops_together_chacha12, 256, 2, (Keys keys, FunctionConstants constants, uint32_t* arrived)) {
    expand_tops_together<ChaCha<12>>(keys, constants, arrived);
}

// budget: 80 registers
KERNEL(share_evaluate_chacha12, 256, 2,
       (Keys keys, FunctionConstants constants, uint32_t height, uint32_t output, Words4* shares)) {
    evaluate_subtrees<ChaCha<12>>(keys, constants, height, output, shares);
}

// budget: 80 registers
KERNEL(share_calls_chacha12, 256, 2, (FunctionConstants constants, uint32_t count, Words4* sink)) {
    run_calls<ChaCha<12>>(constants, count, sink);
}

// budget: 128 registers
KERNEL(share_fold_bits_chacha12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<12>, Bits>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u32_chacha12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<12>, Words32>(fold, constants);
}

// budget: 128 registers
KERNEL(share_fold_u64_chacha12, 256, 2, (Fold fold, FunctionConstants constants)) {
    fold_shares<ChaCha<12>, Words64>(fold, constants);
}
