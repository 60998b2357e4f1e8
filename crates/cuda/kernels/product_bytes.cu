// The product by tensor cores: residues as four parts of a byte each, products of parts summed exactly in 32 bits.
//
// `mma` m16n8k32 takes the columns as its 16 rows, a of query g as row g and b as row g + 8, and 8 rows of the plain
// matrix as its 8 columns. Lane l = 4g + c has terms 4c to 4c + 3 and 16 + 4c to 16 + 4c + 3 of a and b of query g, and
// of row g. Quads hold a lane's words in the order of its registers.
#include "product.cuh"

using namespace spirea;

// Word i of a part is of a (i even) or b of query g, and of terms 16 (i / 2) + 4c and after.
DEVICE void load_columns(uint32_t (&parts)[4][4], const Words4* leaves) {
    const uint32_t lane = threadIdx.x % 32, query = lane / 4;
    #pragma unroll
    for (uint32_t part = 0; part < 4; part++) {
        const Words4 quad = leaves[query * 2 * STEP_QUADS + place(query, 4 * part + lane % 4)];
        parts[part][0] = quad.x, parts[part][1] = quad.y, parts[part][2] = quad.z, parts[part][3] = quad.w;
    }
}
// Word i of a part is of terms 16 i + 4c and after of row g.
DEVICE void load_rows(uint32_t (&parts)[4][2], const Words4* plain) {
    const uint32_t lane = threadIdx.x % 32;
    #pragma unroll
    for (uint32_t pair = 0; pair < 2; pair++) {
        const Words4 quad = quad_of(plain, lane / 4, lane % 4 + 4 * pair);
        parts[2 * pair][0] = quad.x, parts[2 * pair][1] = quad.y;
        parts[2 * pair + 1][0] = quad.z, parts[2 * pair + 1][1] = quad.w;
    }
}

// 32 rows by 16 columns; what differs is how parts are multiplied.
template <class Parts>
struct PartTile {
    static constexpr uint32_t OCTETS = 4;
    typename Parts::Octet sums[OCTETS] = {};

    DEVICE void add(const Words4* leaves, const Words4* plain, uint32_t, const Product&) {
        Parts columns;
        load_columns(columns.parts, leaves);
        columns.prepare();
        #pragma unroll
        for (uint32_t i = 0; i < OCTETS; i++) add_octet(columns, plain, i);
    }

    DEVICE void add_octet(const Parts& columns, const Words4* plain, uint32_t i) {
        uint32_t rows[4][2];
        load_rows(rows, plain + i * 8 * STEP_QUADS);
        columns.multiply_add(sums[i], rows);
    }

    // Sum i of a lane is of column 2g + i / 2, a or b of query g, and of row 2c + i % 2.
    DEVICE void put(const Sums& to, uint32_t octets, Prime prime) const {
        const uint32_t lane = threadIdx.x % 32;
        #pragma unroll
        for (uint32_t i = 0; i < OCTETS; i++) {
            if (i >= octets) break;
            #pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                const Words2 pair{sums[i].value(2 * half, prime), sums[i].value(2 * half + 1, prime)};
                to.put(lane / 4 * 2 + half, 8 * i + 2 * (lane % 4), pair);
            }
        }
    }
};

// Parts of 8 bits, 16 products. Products of parts i and j go to diagonal i + j: at most 4 of 255^2 a term, 2^27 in 512
// terms. Of the recombined sum the lower part, diagonals 0 to 3, is below 2^52, and below 512 q^2 like the whole:
// below 2^32 q for every q.
struct OctetParts {
    struct Octet {
        uint32_t diagonals[7][4];

        DEVICE uint32_t value(uint32_t i, Prime prime) const {
            const uint64_t low = diagonals[0][i] + ((uint64_t)diagonals[1][i] << 8) +
                                 ((uint64_t)diagonals[2][i] << 16) + ((uint64_t)diagonals[3][i] << 24);
            const uint64_t high =
                diagonals[4][i] + ((uint64_t)diagonals[5][i] << 8) + ((uint64_t)diagonals[6][i] << 16);
            return reduce(low, high, prime);
        }
    };
    uint32_t parts[4][4];

    DEVICE void prepare() {}
    DEVICE void multiply_add(Octet& sums, const uint32_t (&rows)[4][2]) const {
        #pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            #pragma unroll
            for (uint32_t j = 0; j < 4; j++) mma_u8u8(sums.diagonals[i + j], parts[i], rows[j]);
        }
    }
};

// Parts of 7 bits, for primes below 2^28: 10 products by Karatsuba's a_i b_j + a_j b_i = (a_i + a_j)(b_i + b_j) -
// a_i b_i - a_j b_j. Sums of two parts are bytes, of which one addition makes four. The sums of squares and of mixed
// products are kept apart, mixed ones by diagonal (i + j = 3 has two); each is below 2^26 in 512 terms. Of the recombined
// sum the lower part is below 2^53, and below 512 q^2: below 2^32 q for every q.
struct SeptetParts {
    struct Octet {
        uint32_t squares[4][4], mixed[5][4];

        // Diagonals wrap while they are put together, but are 4 * 127^2 * 512 at most in the end.
        DEVICE uint32_t value(uint32_t i, Prime prime) const {
            const uint32_t s0 = squares[0][i], s1 = squares[1][i], s2 = squares[2][i], s3 = squares[3][i];
            const uint32_t s01 = s0 + s1, s23 = s2 + s3;
            const uint32_t d1 = mixed[0][i] - s01, d2 = mixed[1][i] - s0 - s2 + s1, d3 = mixed[2][i] - s01 - s23;
            const uint32_t d4 = mixed[3][i] - s1 - s3 + s2, d5 = mixed[4][i] - s23;
            const uint64_t low = s0 + ((uint64_t)d1 << 7) + ((uint64_t)d2 << 14) + ((uint64_t)d3 << 21) +
                                 ((uint64_t)d4 << 28);
            const uint64_t high = ((uint64_t)d5 << 3) + ((uint64_t)s3 << 10);
            return reduce(low, high, prime);
        }
    };
    uint32_t parts[4][4], sums_of_two[6][4];

    DEVICE void prepare() {
        #pragma unroll
        for (uint32_t word = 0; word < 4; word++) {
            uint32_t pair = 0;
            #pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                #pragma unroll
                for (uint32_t j = i + 1; j < 4; j++) sums_of_two[pair++][word] = parts[i][word] + parts[j][word];
            }
        }
    }
    DEVICE void multiply_add(Octet& sums, const uint32_t (&rows)[4][2]) const {
        #pragma unroll
        for (uint32_t i = 0; i < 4; i++) mma_u8u8(sums.squares[i], parts[i], rows[i]);
        uint32_t pair = 0;
        #pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            #pragma unroll
            for (uint32_t j = i + 1; j < 4; j++) {
                const uint32_t mixed[2] = {rows[i][0] + rows[j][0], rows[i][1] + rows[j][1]};
                mma_u8u8(sums.mixed[i + j - 1], sums_of_two[pair++], mixed);
            }
        }
    }
};

// Layouts and blocks as in `multiply`; quads are of planes of 8 bits. 16 byte products a product of residues.
// budget: 255 registers
// uses: IMMA
KERNEL(product_octets, 256, 1, (const Words4* plain, const Words4* leaves, uint32_t* sums, Product product)) {
    SHARED(Words4, shared);
    multiply<PartTile<OctetParts>>(shared, plain, leaves, sums, product);
}

// The same with planes of 7 bits, for primes below 2^28. 10 byte products a product of residues.
// budget: 255 registers
// uses: IMMA
KERNEL(product_septets, 256, 1, (const Words4* plain, const Words4* leaves, uint32_t* sums, Product product)) {
    SHARED(Words4, shared);
    multiply<PartTile<SeptetParts>>(shared, plain, leaves, sums, product);
}
