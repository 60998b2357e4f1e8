// Shares of a batch of keys times rows, in one (GPU-DPF section III-C, optimization 3; IM-PIR section 3): a block has
// some subtrees of the trees of a group of keys, and at each step one leaf of each subtree for each key. The shares go
// to shared memory, where the rows that they multiply meet them; each row is read once for all keys of the group. No
// share reaches global memory.
#pragma once
#include "share_evaluate.cuh"
#include "share_rows.cuh"

namespace spirea {

// A fold. Blocks: x is the group of keys, fastest, so that groups that read the same rows at the same time find them in
// the second-level cache, and then the piece of the tree; y is the part.
//
// Shared memory: the function's tables, the stacks (`height` nodes for each of THREADS), then shares, and in their
// place at the end sums of four keys, or of one, 16 bytes a thread.
struct Fold {
    Keys keys;
    const uint8_t* rows;  // the row of point 0 in the first part
    // Of each key and each part `lanes` lanes of 16 bytes, zeros before.
    uint32_t* sums;
    uint64_t points;
    uint64_t part_bytes;  // from a row to the same one of the next part
    uint64_t parts;
    uint64_t first_part;  // the part of the blocks with y = 0
    uint32_t row_bytes;
    uint32_t lanes;       // of a row, the last may reach beyond its end
    uint32_t group;       // keys of a group, the last may have fewer
    uint32_t groups;
    uint32_t subtrees;    // of a block
    uint32_t height;      // of a subtree, which has 1 << height leaves
};

// What a thread does in the products: a lane of each `slots`-th row from row `slot` on.
struct Place {
    uint32_t slots, slot, lane;
};

// The rows of leaf `leaf` of all subtrees from number `first` on, times their shares. AT_ONCE rows are on their way
// from memory at the same time.
template <class Output, class Load, uint32_t AT_ONCE, class AddRow>
DEVICE void fold_tile(const Fold& fold, const Place& place, uint64_t first, uint32_t leaf, const uint8_t* from,
                      AddRow add_row) {
    const uint32_t rows = fold.subtrees << Output::LOG_ROWS;
    constexpr uint32_t LAST = (1u << Output::LOG_ROWS) - 1;
    for (uint32_t row = place.slot; row < rows; row += AT_ONCE * place.slots) {
        Words4 lanes[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t own = row + i * place.slots;
            const uint64_t number = ((first + (own >> Output::LOG_ROWS)) << fold.height) + leaf;
            const uint64_t point = (number << Output::LOG_ROWS) + (own & LAST);
            lanes[i] = {0, 0, 0, 0};
            if (own < rows && point < fold.points) lanes[i] = Load::load(from + point * fold.row_bytes);
        }
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            // A row that is not there is zeros, and any shares will do.
            const uint32_t own = row + i * place.slots < rows ? row + i * place.slots : row;
            add_row(own >> Output::LOG_ROWS, own & LAST, lanes[i]);
        }
    }
}

// The same for a lone key, whose rows come from memory as fast as they can, or for several.
template <class Output, class Load, uint32_t KEYS>
DEVICE void fold_tile(const Fold& fold, const Place& place, const Shares& shares, uint64_t first, uint32_t leaf,
                      const uint8_t* from, typename Output::Sum (&sums)[KEYS]) {
    if (shares.stride == 1) {
        fold_tile<Output, Load, 4>(fold, place, first, leaf, from, [&](uint32_t k, uint32_t row, Words4 lane) {
            Output::add_lone(shares, k, row, lane, sums[0]);
        });
    } else {
        fold_tile<Output, Load, 2>(fold, place, first, leaf, from, [&](uint32_t k, uint32_t row, Words4 lane) {
            Output::add(shares, k, row, lane, sums);
        });
    }
}

// Adds the sums of all slots, four keys at a time, and those of the block to the answers.
template <class Output, uint32_t KEYS>
DEVICE void deposit(const Fold& fold, const Place& place, uint32_t first_key, uint32_t keys, uint64_t part,
                    unsigned char* room, typename Output::Sum (&sums)[KEYS]) {
    using Sum = typename Output::Sum;
    Sum* const own = reinterpret_cast<Sum*>(room) + threadIdx.x;
#pragma unroll
    for (uint32_t four = 0; four < KEYS; four += 4) {
        if (four >= keys) break;
        block_barrier();
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (four + i < keys) own[i * THREADS] = sums[four + i];
        }
        for (uint32_t slots = place.slots; slots > 1;) {
            const uint32_t half = (slots + 1) / 2;
            block_barrier();
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                if (four + i < keys && place.slot < slots - half) {
                    Output::add(sums[four + i], own[i * THREADS + half * fold.lanes]);
                    own[i * THREADS] = sums[four + i];
                }
            }
            slots = half;
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (four + i < keys && place.slot == 0) {
                const uint64_t answer = (uint64_t)(first_key + four + i) * fold.parts + part;
                Output::deposit(fold.sums + 4 * (answer * fold.lanes + place.lane), sums[four + i]);
            }
        }
    }
}

template <class Function, class Output>
DEVICE void fold_shares(const Fold& fold, const FunctionConstants& constants) {
    SHARED(unsigned char, shared);
    Function function(constants, shared);
    function.fill();
    Words4* const stacks = reinterpret_cast<Words4*>(shared + Function::SHARED_BYTES);
    unsigned char* const room = reinterpret_cast<unsigned char*>(stacks + fold.height * THREADS);

    const uint32_t first_key = blockIdx.x % fold.groups * fold.group;
    const uint32_t keys = min(fold.group, fold.keys.count - first_key);
    const Shares shares{room, fold.group == 1 ? 1 : (fold.group + 3) / 4 * 4};
    const uint64_t first = (uint64_t)(blockIdx.x / fold.groups) * fold.subtrees;

    // In the tree: keys of a subtree side by side.
    const uint32_t k = threadIdx.x / fold.group, key = threadIdx.x % fold.group;
    const Subtree subtree{first + k, first_key + key, fold.height, stacks + threadIdx.x};
    const bool grows = k < fold.subtrees && key < keys;

    // In the products. Threads without a slot begin behind the last row.
    const uint32_t slots = THREADS / fold.lanes, slot = threadIdx.x / fold.lanes;
    const Place place{slots, slot < slots ? slot : 1u << 31, threadIdx.x % fold.lanes};
    const uint8_t* const from = fold.rows + (fold.first_part + blockIdx.y) * fold.part_bytes + 16 * place.lane;
    typename Output::Sum sums[Function::GROUP_KEYS] = {};

    for (uint32_t leaf = 0; leaf < 1u << fold.height; leaf++) {
        // The tables are there, and the last tile's shares are done with.
        block_barrier();
        if (grows && (subtree.index << fold.height) + leaf < fold.keys.leaf_count) {
            const Words4 node = subtree.descend(function, fold.keys, leaf);
            const Words4* const correction = fold.keys.leaves + 4 * subtree.key;
            const uint32_t mask = control_mask(node);
            function.template blocks<4>(seed_of(node), [&](int i, Words4 block) {
                Output::put(shares, k, key, i, Output::Group::share(block, correction[i], mask, fold.keys.party));
            });
        }
        block_barrier();
        Output::arrange(shares, fold.subtrees);
        if (fold.row_bytes % 16 == 0) {
            fold_tile<Output, Aligned16>(fold, place, shares, first, leaf, from, sums);
        } else if (Output::WHOLE_WORDS || fold.row_bytes % 4 == 0) {
            fold_tile<Output, Aligned4>(fold, place, shares, first, leaf, from, sums);
        } else {
            fold_tile<Output, Unaligned>(fold, place, shares, first, leaf, from, sums);
        }
    }
    // Again, rather than in registers until now.
    deposit<Output>(fold, place, first_key, keys, fold.first_part + opaque(blockIdx.y), room, sums);
}

}  // namespace spirea
