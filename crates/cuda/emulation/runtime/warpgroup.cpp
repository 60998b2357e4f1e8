// Matrices of 16-bit values that a warp loads, and the products of a warpgroup, deferred to their
// wait.
//
// Each warp computes its own 16 rows of a product and does not meet the other warps. Therefore the
// emulation does not check that all four warps of a warpgroup issue the same products.
#include <cstring>

#include "block.hpp"
#include "emulation.hpp"

namespace emulation {

namespace {

constexpr size_t ROW = 16;

// Returns the address of `bytes` bytes of shared memory at `offset`; null if the range exceeds
// shared memory.
const unsigned char* shared_at(size_t offset, size_t bytes) {
    return offset + bytes <= view->shared_bytes ? view->shared + offset : nullptr;
}

const char* load_rows(void* const* requests, uint32_t, unsigned* failing_lane) {
    for (unsigned lane = 0; lane < WARP; lane++) {
        const auto* row = static_cast<const unsigned char*>(static_cast<MatrixRows*>(requests[lane])->row);
        *failing_lane = lane;
        if (reinterpret_cast<uintptr_t>(row) % ROW != 0) return "takes rows at multiples of 16 only";
        if (row < view->shared || row + ROW > view->shared + view->shared_bytes) {
            return "reads outside of shared memory";
        }
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        for (unsigned matrix = 0; matrix < 4; matrix++) {
            const auto* from = static_cast<const MatrixRows*>(requests[8 * matrix + lane / 4]);
            auto* to = static_cast<MatrixRows*>(requests[lane])->words + matrix;
            std::memcpy(to, static_cast<const unsigned char*>(from->row) + 4 * (lane % 4), 4);
        }
    }
    return nullptr;
}

// Computes 8 columns of a product for a warp's 16 rows, over 32 bytes, with columns from two core
// matrices.
const char* multiply_columns(const Thread* const* lanes, size_t product, unsigned columns, const int16_t (&a)[16][32]) {
    const uint64_t descriptor = lanes[0]->products[product].columns;
    const size_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
    const size_t stride = (descriptor >> 32 & 0x3fff) << 4;
    int16_t b[8][32];
    for (unsigned half = 0; half < 2; half++) {
        const unsigned char* core = shared_at(start + half * leading + columns * stride, 8 * ROW);
        if (core == nullptr) return "reads columns outside of shared memory";
        for (unsigned i = 0; i < 8 * ROW; i++) b[i / ROW][ROW * half + i % ROW] = core[i];
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        for (unsigned i = 0; i < 4; i++) {
            const int16_t *row = a[lane / 4 + 8 * (i / 2)], *column = b[2 * (lane % 4) + i % 2];
            int32_t sum = 0;
            for (unsigned k = 0; k < 32; k++) sum += row[k] * column[k];
            lanes[lane]->products[product].d[4 * columns + i] += uint32_t(sum);
        }
    }
    return nullptr;
}

const char* multiply(const Thread* const* lanes, size_t product, unsigned* failing_lane) {
    int16_t a[16][32];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const DeferredProduct& mine = lanes[lane]->products[product];
        *failing_lane = lane;
        if (mine.columns != lanes[0]->products[product].columns) return "has lanes with different columns";
        for (unsigned i = 0; i < 4; i++) {
            for (unsigned byte = 0; byte < 4; byte++) {
                a[lane / 4 + 8 * (i % 2)][4 * (lane % 4) + 16 * (i / 2) + byte] = uint8_t(mine.a[i] >> 8 * byte);
            }
        }
    }
    const unsigned width = lanes[0]->products[product].width;
    for (unsigned columns = 0; columns < width; columns++) {
        if (const char* message = multiply_columns(lanes, product, columns, a)) return message;
    }
    return nullptr;
}

const char* finish(void* const* requests, uint32_t, unsigned* failing_lane) {
    Thread* lanes[WARP];
    for (unsigned lane = 0; lane < WARP; lane++) lanes[lane] = static_cast<FinishProducts*>(requests[lane])->thread;
    const auto& first = *static_cast<FinishProducts*>(requests[0]);
    size_t done = 0;
    for (const DeferredProduct& product : lanes[0]->products) {
        if (product.group + first.groups_left >= lanes[0]->product_groups) break;
        for (unsigned lane = 0; lane < WARP; lane++) {
            *failing_lane = lane;
            if (lanes[lane]->products.size() <= done) return "waits for products that this lane did not issue";
        }
        if (const char* message = multiply(lanes, done, failing_lane)) return message;
        done++;
    }
    for (Thread* lane : lanes) lane->products.erase(lane->products.begin(), lane->products.begin() + ptrdiff_t(done));
    return nullptr;
}

}  // namespace

const WarpOperation LOAD_MATRICES = {"load_matrices", load_rows};
const WarpOperation FINISH_PRODUCTS = {"warpgroup_wait", finish};

void product_begin(const DeferredProduct& product) { current->products.push_back(product); }

}  // namespace emulation
