// What the kernels of scalar_fold share: the panel layout, the planes of the queries, and how a tile's sums leave.
// docs/kernels/cuda-scalar-fold.md draws the layouts.
#pragma once
#include "portable.cuh"

namespace spirea {

// A panel is 32 rows. In it a *quad* of columns is 128 bytes, the four bytes of row 0, of row 1, and so on: eight
// *chunks* of 16 bytes, four rows each.
constexpr uint32_t PANEL_ROWS = 32;
constexpr uint32_t CHUNKS = 8;

// Tensor cores take 32 columns at once: a *step* of eight quads.
constexpr uint32_t STEP_QUADS = 8;

// Planes: byte p of the query words of four columns, as one word, is a word of *plane* p; a query is four columns of
// bytes for the tensor cores. Four queries make a *tile*, whose words for a step lie as four 8 x 8 matrices of 16-bit
// values, 128 bytes each, which is what `load_matrices` and a descriptor without swizzle take: matrix (j, i) holds
// planes 2j and 2j + 1 at the quads 4i to 4i + 3 of the step; its row g = 2 q + p % 2 is plane p of query q of the
// tile, its word c quad 4i + c. Products with (j, 0) and (j, 1) are columns 8j to 8j + 7 of the tile's sums, of which
// lane l holds 2c and 2c + 1, c = l % 4: so the sums of the four planes of query c meet in one lane.
constexpr uint32_t TILE_QUERIES = 4;
constexpr uint32_t TILE_WORDS = 128;

// The words of planes 0 to 3, from the words of four columns: a transposition of 4 x 4 bytes.
DEVICE Words4 split_planes(Words4 columns) {
    const uint32_t low_xy = permute_bytes(columns.x, columns.y, 0x5140);
    const uint32_t high_xy = permute_bytes(columns.x, columns.y, 0x7362);
    const uint32_t low_zw = permute_bytes(columns.z, columns.w, 0x5140);
    const uint32_t high_zw = permute_bytes(columns.z, columns.w, 0x7362);
    return {permute_bytes(low_xy, low_zw, 0x5410), permute_bytes(low_xy, low_zw, 0x7632),
            permute_bytes(high_xy, high_zw, 0x5410), permute_bytes(high_xy, high_zw, 0x7632)};
}

// The sum over the planes, each at its place.
DEVICE uint32_t join_planes(uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3) {
    return p0 + (p1 << 8) + (p2 << 16) + (p3 << 24);
}

}  // namespace spirea
