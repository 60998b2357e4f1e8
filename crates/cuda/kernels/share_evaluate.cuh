// Shares of a whole domain written to memory, and calls of a function with nothing else: what folds are measured by.
#pragma once
#include "share_tree.cuh"

namespace spirea {

// The kind of a domain's outputs, by the logarithm of its bits.
constexpr uint32_t BIT = 0, U32 = 5, U64 = 6;

// Thread x of the blocks of row y has subtree x of key y, of 1 << height leaves each. The shares of leaf i of key k go
// to shares[4 (k leaf_count + i)]. Shared memory: the function's tables, then the stacks, `height` nodes a thread.
template <class Function>
DEVICE void evaluate_subtrees(const Keys& keys, const FunctionConstants& constants, uint32_t height, uint32_t output,
                              Words4* shares) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    block_barrier();
    const uint32_t key = blockIdx.y;
    const uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const Subtree subtree{index, key, height,
                          reinterpret_cast<Words4*>(shared + Function::SHARED_BYTES) + threadIdx.x};
    for (uint32_t i = 0; i < 1u << height; i++) {
        const uint64_t number = (index << height) + i;
        if (number >= keys.leaf_count) return;
        const Words4 node = subtree.descend(function, keys, i);
        Words4* const to = shares + 4 * (key * keys.leaf_count + number);
        const Words4* const correction = keys.leaves + 4 * key;
        const uint32_t mask = control_mask(node);
        function.template blocks<4>(seed_of(node), [&](int j, Words4 block) {
            switch (output) {
                case BIT: to[j] = Xor::share(block, correction[j], mask, keys.party); break;
                case U32: to[j] = Add<1>::share(block, correction[j], mask, keys.party); break;
                case U64: to[j] = Add<2>::share(block, correction[j], mask, keys.party); break;
                default: to[j] = Add<4>::share(block, correction[j], mask, keys.party);
            }
        });
    }
}

// A chain of `count` leaves in each thread, from a seed of its own; the exclusive or of a leaf is the next seed.
template <class Function>
DEVICE void run_calls(const FunctionConstants& constants, uint32_t count, Words4* sink) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    block_barrier();
    const uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
    Words4 seed{2 * thread, 0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        Words4 sum{};
        function.template blocks<4>(seed, [&](int, Words4 block) { sum = xor_words(sum, block); });
        seed = seed_of(sum);
    }
    sink[thread] = seed;
}

}  // namespace spirea
