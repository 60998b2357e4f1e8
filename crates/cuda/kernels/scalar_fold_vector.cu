// scalar_fold for a query or two: the matrix streams past dot products of four bytes.
#include "scalar_fold.cuh"

namespace spirea {

// Quads whose planes a block keeps in shared memory: 64 KiB of each panel.
constexpr uint32_t PIECE_QUADS = 512;
constexpr uint32_t WARPS = 8;
// Loads of 16 bytes that a lane has under way.
constexpr uint32_t LOADS = 4;
constexpr uint32_t ROUND_QUADS = 4 * LOADS;

// Adds the products of a piece of eight panels to `answers`, a warp a panel.
//
// matrix   panels of `quads` quads, as chunks, and at least ROUND_QUADS - 1 quads of anything behind the last
// queries  `batch` queries of `quads` times four words
// answers  `batch` answers of 32 `panels` words
//
// Block x is piece x % pieces of panels 8 (x / pieces) and on; block y has queries QUERIES y and on. Shared
// memory: PIECE_QUADS plane words of each plane of each query.
//
// Lane l reads chunk l % 8 of quads l / 8, l / 8 + 4 and so on: a warp's load is 512 bytes in a row. For each four
// rows it makes 16 dot products a query (4 rows x 4 planes): a byte of the matrix costs a dot product a query. Sums
// wrap modulo 2^32, which the shifts of `join_planes` respect. Quads behind the piece's end count for nothing, as their
// planes are zero.
template <uint32_t QUERIES>
DEVICE void fold_vector(const Words4* matrix, const Words4* queries, uint32_t* answers, uint32_t quads, uint32_t panels,
                        uint32_t batch) {
    SHARED(Words4, planes);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Neighbours have consecutive pieces of the same panels: what is read at one time lies close together, in few pages.
    const uint32_t pieces = (quads + PIECE_QUADS - 1) / PIECE_QUADS;
    const uint32_t first_quad = blockIdx.x % pieces * PIECE_QUADS;
    const uint32_t panel = blockIdx.x / pieces * WARPS + warp;
    const uint32_t first_query = blockIdx.y * QUERIES;
    const uint32_t piece = min(PIECE_QUADS, quads - first_quad);

    for (uint32_t i = threadIdx.x; i < QUERIES * PIECE_QUADS; i += 32 * WARPS) {
        const uint32_t query = first_query + i / PIECE_QUADS, quad = i % PIECE_QUADS;
        const bool there = query < batch && quad < piece;
        planes[i] = there ? split_planes(queries[(uint64_t)query * quads + first_quad + quad]) : Words4{0, 0, 0, 0};
    }
    block_barrier();
    if (panel >= panels) return;

    // sums[u][4 row + plane]
    uint32_t sums[QUERIES][16] = {};
    const Words4* from = matrix + ((uint64_t)panel * quads + first_quad) * CHUNKS + lane;
    const Words4* digits = planes + lane / CHUNKS;
#pragma unroll 1
    for (uint32_t quad = 0; quad < piece; quad += ROUND_QUADS, from += ROUND_QUADS * CHUNKS, digits += ROUND_QUADS) {
        Words4 rows[LOADS];
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++) rows[i] = load_once(from + 32 * i);
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++) {
            const uint32_t row[4] = {rows[i].x, rows[i].y, rows[i].z, rows[i].w};
#pragma unroll
            for (uint32_t u = 0; u < QUERIES; u++) {
                const Words4 plane = digits[u * PIECE_QUADS + 4 * i];
#pragma unroll
                for (uint32_t r = 0; r < 4; r++) {
                    sums[u][4 * r + 0] = dot_bytes(row[r], plane.x, sums[u][4 * r + 0]);
                    sums[u][4 * r + 1] = dot_bytes(row[r], plane.y, sums[u][4 * r + 1]);
                    sums[u][4 * r + 2] = dot_bytes(row[r], plane.z, sums[u][4 * r + 2]);
                    sums[u][4 * r + 3] = dot_bytes(row[r], plane.w, sums[u][4 * r + 3]);
                }
            }
        }
    }

    // Lanes with the same chunk have other quads of the same rows.
#pragma unroll
    for (uint32_t u = 0; u < QUERIES; u++) {
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t sum = join_planes(sums[u][4 * r], sums[u][4 * r + 1], sums[u][4 * r + 2], sums[u][4 * r + 3]);
            sum += from_lane_xor(sum, 8);
            sum += from_lane_xor(sum, 16);
            if (lane < CHUNKS && first_query + u < batch) {
                const uint64_t answer = (uint64_t)(first_query + u) * panels + panel;
                atomic_add(answers + answer * PANEL_ROWS + 4 * lane + r, sum);
            }
        }
    }
}

}  // namespace spirea

using namespace spirea;

// budget: 64 registers
KERNEL(scalar_fold_vector_1, 256, 4,
       (const Words4* matrix, const Words4* queries, uint32_t* answers, uint32_t quads, uint32_t panels,
        uint32_t batch)) {
    fold_vector<1>(matrix, queries, answers, quads, panels, batch);
}

// budget: 80 registers
KERNEL(scalar_fold_vector_2, 256, 3,
       (const Words4* matrix, const Words4* queries, uint32_t* answers, uint32_t quads, uint32_t panels,
        uint32_t batch)) {
    fold_vector<2>(matrix, queries, answers, quads, panels, batch);
}
