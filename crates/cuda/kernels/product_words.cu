// The product by integer arithmetic: 32 x 32 bits into 64.
#include "product.cuh"

using namespace spirea;

// 64 rows by 16 columns: a lane has rows l / 4 + 8 i and columns l % 4 + 4 j, 32 sums of 64 bits. Of each quad of
// terms it reads 8 rows and 4 columns for 128 multiply-adds.
struct WordTile {
    static constexpr uint32_t OCTETS = 8, COLUMNS = 4;
    uint64_t sums[OCTETS][COLUMNS] = {};
    uint32_t quads = 0;  // since the last fold

    DEVICE void add(const Words4* leaves, const Words4* plain, uint32_t columns, const Product& product) {
        const uint32_t lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
        const uint32_t used = min(COLUMNS, (columns + 3) / 4);
        #pragma unroll 1
        for (uint32_t turn = 0; turn < STEP_QUADS; turn++) {
            // Columns two apart would meet in a bank: their lanes take the quads in another order.
            const uint32_t quad = turn ^ column / 2;
            Words4 rows[OCTETS], factors[COLUMNS];
            #pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++) factors[j] = quad_of(leaves, column + 4 * j, quad);
            #pragma unroll
            for (uint32_t i = 0; i < OCTETS; i++) rows[i] = quad_of(plain, row + 8 * i, quad);
            // Fours of columns that do not exist cost a single query most of its time.
            #pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++) {
                if (j >= used) break;
                #pragma unroll
                for (uint32_t i = 0; i < OCTETS; i++) add_quad(sums[i][j], rows[i], factors[j]);
            }
            if (++quads == product.quads) fold(product);
        }
    }

    DEVICE static void add_quad(uint64_t& sum, const Words4& a, const Words4& b) {
        sum = multiply_add_wide(a.x, b.x, sum);
        sum = multiply_add_wide(a.y, b.y, sum);
        sum = multiply_add_wide(a.z, b.z, sum);
        sum = multiply_add_wide(a.w, b.w, sum);
    }

    // Takes the upper words modulo q, below 2q: a sum is below 2q 2^32 then.
    DEVICE void fold(const Product& product) {
        quads = 0;
        #pragma unroll
        for (uint32_t i = 0; i < OCTETS; i++) {
            #pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++) {
                const uint32_t upper =
                    multiply_lazy((uint32_t)(sums[i][j] >> 32), 1, product.companion, product.prime.q);
                sums[i][j] = join_words((uint32_t)sums[i][j], upper);
            }
        }
    }

    DEVICE void put(const Sums& to, uint32_t octets, Prime prime) const {
        const uint32_t lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
        #pragma unroll
        for (uint32_t i = 0; i < OCTETS; i++) {
            if (i >= octets) break;
            #pragma unroll
            for (uint32_t j = 0; j < COLUMNS; j++) {
                to.put(column + 4 * j, row + 8 * i, reduce((uint32_t)sums[i][j], sums[i][j] >> 32, prime));
            }
        }
    }
};

// Layouts and blocks as in `multiply`; quads are of words. A sum takes `quads` quads of products below q^2 on top of
// 2q 2^32 without overflow. One multiply-add a product, and two instructions a sum and fold.
// budget: 184 registers
KERNEL(product_words, 256, 1, (const Words4* plain, const Words4* leaves, uint32_t* sums, Product product)) {
    SHARED(Words4, shared);
    multiply<WordTile>(shared, plain, leaves, sums, product);
}
