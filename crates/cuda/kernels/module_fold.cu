// module_fold: a ring column of the public matrix as 256 query columns of scalar_fold.
#include "portable.cuh"

using namespace spirea;

// Writes the 256 columns that a ring column j of the public matrix stands for.
//
// coefficients  block_rows x rank polynomials of 256 words, row-major
// columns       256 queries of block_rows 256 words: query l, word 256 i + k is entry [k][l] of the matrix of
//               multiplication by polynomial (i, j): coefficient k - l, or minus coefficient 256 + k - l where k < l
//
// Block (x, y) is block row i = x and query l = y, thread k. It moves words, 4 bytes read and written for each.
// budget: 32 registers
KERNEL(module_fold_columns, 256, 6,
       (const uint32_t* coefficients, uint32_t* columns, uint32_t rank, uint32_t ring_column)) {
    const uint32_t k = threadIdx.x, l = blockIdx.y;
    const uint32_t* polynomial = coefficients + ((uint64_t)blockIdx.x * rank + ring_column) * 256;
    const uint32_t coefficient = polynomial[(k - l) % 256];
    columns[((uint64_t)l * gridDim.x + blockIdx.x) * 256 + k] = k < l ? 0u - coefficient : coefficient;
}
