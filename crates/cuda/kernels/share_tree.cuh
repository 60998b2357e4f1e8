// Trees of distributed point functions: keys of a batch to shares, for every function.
//
// A batch is evaluated in two parts (GPU-DPF, arXiv 2301.10904, section III-C):
// - the top of every tree, breadth first in global memory: a block for each key, or for few keys all blocks for all of
//   them, which meet after each level (optimizations 1 and 4);
// - from its nodes on depth first, each thread its own subtree, with one node a level in shared memory (optimization 2:
//   memory grows with the height of a subtree, not with its leaves). All threads of a block are at the same leaf of
//   their subtrees, so branches are uniform, and each node is expanded once.
#pragma once
#include "prf_node.cuh"

namespace spirea {

// Threads of a block, in all kernels of shares.
constexpr uint32_t THREADS = 256;

// What a level adds to the children of a corrected node.
struct Correction {
    Words4 left, right;
};

// The keys of a batch, of one domain and one party.
struct Keys {
    const Words4* roots;
    const Correction* levels;  // that of level l for key k at l * count + k
    const Words4* leaves;      // the four blocks for key k from 4 k on
    // Of each key 2 << top nodes: node i of level l is number (1 << l) + i, so the root is number 1. Number 0 is free.
    Words4* tops;
    uint64_t leaf_count;  // leaves that hold points, of the 1 << depth at the tree's end
    uint32_t count;
    uint32_t depth;
    uint32_t top;
    uint32_t party;  // 0 or 1
};

// How many nodes of a level have leaves below them that hold points.
DEVICE uint64_t nodes_with_points(const Keys& keys, uint32_t level) {
    const uint32_t below = keys.depth - level;
    return (keys.leaf_count + ((uint64_t)1 << below) - 1) >> below;
}

DEVICE Words4 seed_of(Words4 node) { return {node.x & ~1u, node.y, node.z, node.w}; }
// All ones where a node is corrected.
DEVICE uint32_t control_mask(Words4 node) { return 0u - (node.x & 1); }

template <class Function>
DEVICE void expand(const Function& function, const Correction* correction, Words4 node, Words4 (&children)[2]) {
    const uint32_t mask = control_mask(node);
    function.template blocks<2>(seed_of(node), [&](int i, Words4 block) {
        children[i] = xor_words(block, and_mask(i == 0 ? correction->left : correction->right, mask));
    });
}

// Expands node `node` of level `level` in the heap of key `key`.
template <class Function>
DEVICE void expand_top(const Function& function, const Keys& keys, uint32_t key, uint32_t level, uint64_t node) {
    Words4* const heap = keys.tops + ((uint64_t)key << (keys.top + 1));
    Words4 children[2];
    expand(function, keys.levels + level * keys.count + key, heap[((uint64_t)1 << level) + node], children);
    Words4* const to = heap + ((uint64_t)2 << level) + 2 * node;
    to[0] = children[0];
    to[1] = children[1];
}

// The top of one key's tree, by the block of that number.
template <class Function>
DEVICE void expand_tops_apart(const Keys& keys, const FunctionConstants& constants) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    const uint32_t key = blockIdx.x;
    if (threadIdx.x == 0) keys.tops[((uint64_t)key << (keys.top + 1)) + 1] = keys.roots[key];
    for (uint32_t level = 0; level < keys.top; level++) {
        block_barrier();
        const uint64_t nodes = nodes_with_points(keys, level);
        for (uint64_t node = threadIdx.x; node < nodes; node += THREADS) expand_top(function, keys, key, level, node);
    }
}

// The tops of all keys' trees, by all blocks together. `arrived` is a word that is 0 before the launch.
template <class Function>
DEVICE void expand_tops_together(const Keys& keys, const FunctionConstants& constants, uint32_t* arrived) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x, threads = (uint64_t)gridDim.x * THREADS;
    for (uint64_t key = first; key < keys.count; key += threads) {
        keys.tops[(key << (keys.top + 1)) + 1] = keys.roots[key];
    }
    for (uint32_t level = 0; level < keys.top; level++) {
        grid_barrier(arrived, level + 1);
        const uint64_t nodes = nodes_with_points(keys, level);
        for (uint64_t i = first; i < nodes * keys.count; i += threads) {
            expand_top(function, keys, (uint32_t)(i / nodes), level, i % nodes);
        }
    }
}

// A thread's subtree: number `index` of those with 1 << height leaves. `stack` has a node of each level below its root:
// that of height h, the right one of two, at h * THREADS.
struct Subtree {
    uint64_t index;
    uint32_t key, height;
    Words4* stack;

    // The node of leaf `leaf`, after those of all leaves before it.
    template <class Function>
    DEVICE Words4 descend(const Function& function, const Keys& keys, uint32_t leaf) const {
        uint32_t above = 0;
        Words4 node;
        if (leaf == 0) {
            // The way from the top's node to the root of the subtree, and on to its first leaf.
            above = keys.depth - keys.top;
            const Words4* const heap = keys.tops + ((uint64_t)key << (keys.top + 1));
            node = heap[((uint64_t)1 << keys.top) + (index >> (above - height))];
        } else {
            while ((leaf >> above & 1) == 0) above++;
            node = stack[above * THREADS];
        }
        while (above > 0) {
            Words4 children[2];
            expand(function, keys.levels + (keys.depth - above) * keys.count + key, node, children);
            above--;
            if (above < height) {
                node = children[0];
                stack[above * THREADS] = children[1];
            } else {
                node = index >> (above - height) & 1 ? children[1] : children[0];
            }
        }
        return node;
    }
};

// The groups in which shares add up, one for each `OutputKind`: what a block of a leaf becomes.

struct Xor {
    DEVICE static Words4 share(Words4 block, Words4 correction, uint32_t mask, uint32_t) {
        return xor_words(block, and_mask(correction, mask));
    }
};

// Outputs of WORDS words of 32 bits: the correction is added, and the sum negated for party 1.
template <int WORDS>
struct Add {
    DEVICE static Words4 share(Words4 block, Words4 correction, uint32_t mask, uint32_t party) {
        const Words4 added = and_mask(correction, mask);
        const uint32_t a[4] = {block.x, block.y, block.z, block.w}, b[4] = {added.x, added.y, added.z, added.w};
        const uint32_t inverted = 0u - party;
        uint32_t sum[4], carry = 0, negated_carry = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i % WORDS == 0) carry = 0, negated_carry = party;
            const uint64_t wide = (uint64_t)a[i] + b[i] + carry;
            const uint64_t negated = (uint64_t)((uint32_t)wide ^ inverted) + negated_carry;
            carry = (uint32_t)(wide >> 32);
            negated_carry = (uint32_t)(negated >> 32);
            sum[i] = (uint32_t)negated;
        }
        return {sum[0], sum[1], sum[2], sum[3]};
    }
};

}  // namespace spirea
