// Self-tests of portable.cuh: each kernel does what one family of its wrappers does and writes down what came out.
// The host has the expected values (`src/probe/selftest/`), computed in Rust from what the header says.
#include "portable.cuh"

using namespace spirea;

// One thread an input triple (a, b, c) of `count`, in arrays one after another; result k of thread i goes to
// words[k * count + i]. Results: the two words of a b + (c : b), the upper words of the unsigned and the signed
// product, the funnel shift by c mod 32, the bytes that the four selectors in c choose, the byte products, and a
// without what the compiler knows of it, b and c read past the cache, a group of four words of which i is part, the
// lower word of a b + c, and both words of (b : a) + c.
// budget: 56 registers
KERNEL(selftest_words, 256, 1, (uint32_t* words, const uint32_t* inputs, uint32_t count)) {
    const uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    const uint32_t a = inputs[i], b = inputs[count + i], c = inputs[2 * count + i];
    const uint64_t wide = multiply_add_wide(a, b, (uint64_t)c << 32 | b);
    const Words4* groups = reinterpret_cast<const Words4*>(inputs) + i / 4;
    const Words4 streamed = load_once(groups), kept = load_table(groups);
    const uint64_t joined = join_words(a, b) + c;
    constexpr uint32_t RESULTS = 14;
    const uint32_t results[RESULTS] = {(uint32_t)wide,
                                       (uint32_t)(wide >> 32),
                                       multiply_high(a, b),
                                       (uint32_t)multiply_high_signed((int32_t)a, (int32_t)b),
                                       funnel_left(a, b, c % 32),
                                       permute_bytes(a, b, c),
                                       dot_bytes(a, b, c),
                                       opaque(load_line(inputs + i)),
                                       load_once(inputs + count + i),
                                       streamed.x ^ streamed.y ^ streamed.z ^ streamed.w,
                                       kept.x + kept.y + kept.z + kept.w,
                                       multiply_add_low(a, b, c),
                                       (uint32_t)joined,
                                       (uint32_t)(joined >> 32)};
#pragma unroll
    for (uint32_t k = 0; k < RESULTS; k++) words[k * count + i] = results[k];
}

// One warp. Lane l has values[l] and offers it to the others; result k of lane l goes to words[32 k + l]: the value of
// lane (3 l + 1) % 32, for each mask 1, 2, 4, 8, 16 that of lane l ^ mask, the lanes whose values are odd, and both
// words of the 64-bit value (value : ~value) of lane 31 - l.
// budget: 32 registers
KERNEL(selftest_warp, 32, 1, (uint32_t* words, const uint32_t* values)) {
    const uint32_t lane = threadIdx.x, value = values[lane];
    words[lane] = from_lane(value, (3 * lane + 1) % 32);
#pragma unroll
    for (uint32_t k = 0; k < 5; k++) words[32 * (k + 1) + lane] = from_lane_xor(value, 1u << k);
    words[32 * 6 + lane] = spirea::ballot(value % 2 == 1);
    const uint64_t wide = from_lane((uint64_t)value << 32 | (uint32_t)~value, 31 - lane);
    words[32 * 7 + lane] = (uint32_t)wide;
    words[32 * 8 + lane] = (uint32_t)(wide >> 32);
}

// One warp. Four 8 x 8 matrices of 16-bit values from shared memory, where matrix m has its rows, of 16 bytes, in places
// permuted by m: words[32 k + l] is word k of lane l.
// budget: 32 registers
KERNEL(selftest_matrices, 32, 1, (uint32_t* words, const Words4* rows)) {
    SHARED(Words4, shared);
    const uint32_t lane = threadIdx.x, matrix = lane / 8, place = matrix * 8 + (lane % 8 ^ matrix);
    shared[place] = rows[lane];
    warp_barrier();
    uint32_t found[2][2];
    load_matrices(found, shared + place);
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) words[32 * k + lane] = found[k / 2][k % 2];
}

// Blocks of 256 threads; in each of `rounds` rounds a thread puts its word into shared memory, and takes that of its
// mirror image plus the round: words[i] goes to and fro, and every round needs both barriers.
// budget: 24 registers
KERNEL(selftest_block, 256, 1, (uint32_t* words, uint32_t rounds)) {
    SHARED(uint32_t, shared);
    uint32_t value = words[blockIdx.x * 256 + threadIdx.x];
    for (uint32_t round = 0; round < rounds; round++) {
        shared[threadIdx.x] = value;
        block_barrier();
        value = shared[255 - threadIdx.x] * 5 + round;
        block_barrier();
    }
    words[blockIdx.x * 256 + threadIdx.x] = value;
}

// One block of 128 threads sums `tiles` tiles of 128 x 16 bytes, which it copies to shared memory in the background,
// three tiles ahead: sums[t] is that of the words of thread 127 - t over all tiles, times the tile's number + 1, so
// that a tile out of its turn shows.
// budget: 48 registers
KERNEL(selftest_copy, 128, 1, (uint32_t* sums, const Words4* from, uint32_t tiles)) {
    SHARED(Words4, shared);
    const uint32_t t = threadIdx.x;
    const auto ask = [&](uint32_t tile) {
        if (tile < tiles) copy_async(shared + tile % 4 * 128 + t, from + (uint64_t)tile * 128 + t);
        copy_commit();
    };
    for (uint32_t tile = 0; tile < 3; tile++) ask(tile);
    uint32_t sum = 0;
    for (uint32_t tile = 0; tile < tiles; tile++) {
        copy_wait<2>();
        block_barrier();
        const Words4 v = shared[tile % 4 * 128 + 127 - t];
        sum += (v.x + v.y + v.z + v.w) * (tile + 1);
        // The slot asked for now was read in the round before, and this round's barrier is behind it.
        ask(tile + 3);
    }
    sums[t] = sum;
}

// All threads add to and xor with the same three words. taken[i] is what thread i found at counters[0] when it added
// 1; sum[0] receives 2^31 + i from each, so that it carries into its upper word; counters[1] is xored with a word of
// each thread.
// budget: 24 registers
KERNEL(selftest_atomics, 256, 1, (uint32_t* counters, uint64_t* sum, uint32_t* taken)) {
    const uint32_t i = blockIdx.x * 256 + threadIdx.x;
    taken[i] = atomic_add(counters, 1);
    atomic_add(sum, 0x80000000ull + i);
    atomic_xor(counters + 1, i * 2654435761u);
}

// A cooperative launch. In each of `rounds` rounds every block writes a word, all meet, and every block adds up the
// words of all others: words has two arrays of a word a block, which take turns, so that one barrier a round does.
// sums[b] is the sum of all that block b read.
// budget: 40 registers
KERNEL(selftest_grid, 64, 1, (uint32_t* arrived, uint32_t* words, uint32_t* sums, uint32_t rounds)) {
    uint32_t sum = 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        // Read past the first-level cache, which is not coherent: other blocks wrote these words.
        volatile uint32_t* turn = words + round % 2 * gridDim.x;
        if (threadIdx.x == 0) turn[blockIdx.x] = round * (blockIdx.x + 1) + sum;
        grid_barrier(arrived, round);
        if (threadIdx.x == 0) {
            for (uint32_t b = 0; b < gridDim.x; b++) sum += turn[b];
        }
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Block x multiplies its tile: d[x] (16 x 8 words, by rows) += a[x] (16 x 32 bytes, by rows) b[x] (32 x 8 bytes, by
// columns), with the fragments that portable.cuh describes.
// budget: 32 registers
// uses: IMMA
KERNEL(selftest_mma, 32, 1, (uint32_t* d, const uint32_t* a, const uint32_t* b)) {
    const uint32_t g = threadIdx.x / 4, c = threadIdx.x % 4;
    d += blockIdx.x * 128;
    a += blockIdx.x * 128;
    b += blockIdx.x * 64;
    uint32_t da[4], aa[4], ba[2];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        aa[i] = a[(g + 8 * (i % 2)) * 8 + c + 4 * (i / 2)];
        da[i] = d[(g + 8 * (i / 2)) * 8 + 2 * c + i % 2];
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) ba[i] = b[g * 8 + c + 4 * i];
    mma_u8u8(da, aa, ba);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * c + i % 2] = da[i];
}

#if !TURING
// Block x counts the ones that the rows of its a (16 x 256 bits) and the columns of its b (256 x 8 bits, by columns) have in
// common: d[x] (16 x 8 words, by rows).
// budget: 32 registers
// uses(80, 86, 89, 90a): BMMA
KERNEL(selftest_common_ones, 32, 1, (uint32_t* d, const uint32_t* a, const uint32_t* b)) {
    const uint32_t g = threadIdx.x / 4, c = threadIdx.x % 4;
    d += blockIdx.x * 128;
    a += blockIdx.x * 128;
    b += blockIdx.x * 64;
    uint32_t da[4], aa[4], ba[2];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) aa[i] = a[(g + 8 * (i % 2)) * 8 + c + 4 * (i / 2)];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) ba[i] = b[g * 8 + c + 4 * i];
    mma_common_ones(da, aa, ba);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * c + i % 2] = da[i];
}
#endif
