`default_nettype none
`include "word.vh"
// Twist of a lane, with factors generated on the fly. Factors of consecutive cycles form a
// geometric sequence, so a second multiplier computes each from the factor four cycles earlier;
// only the first four are stored. The two multipliers are two cells of the array.
module twist_cell #(
    parameter LANES = 64,
    parameter LANE  = 0
) (
    input  wire                     clk,
    input  wire                     array,
    input  wire [1:0]               drain,
    // Transform: x of cycle `count` of a polynomial.
    input  wire                     valid,
    input  wire                     inverse,
    input  wire [1:0]               prime,
    input  wire [$clog2(LANES)-1:0] count,
    input  wire [`WORD-1:0]         x,
    output wire [`WORD-1:0]         twisted,
    // Array: a for the left cell, and b for both cells.
    input  wire [1:0]               a_prime,
    input  wire [`WORD-1:0]         a,
    input  wire [2*`WORD-1:0]       b,
    output wire [1:0]               a_prime_next,
    output wire [`WORD-1:0]         a_next,
    output wire [2*`WORD-1:0]       b_next
);
    wire [`WORD-1:0] seed, step, next_factor, a_between;
    wire [1:0]       prime_between;
    twist_rom #(.LANES(LANES), .LANE(LANE)) rom (
        .inverse(inverse), .prime(prime), .count(count[1:0]), .seed(seed), .step(step)
    );
    // The factor is zero between polynomials, so that the multiplier is empty when the array
    // begins.
    wire [`WORD-1:0] factor = !valid ? 0 : count < 4 ? seed : next_factor;
    product_cell twist (
        .clk(clk), .array(array), .drain(drain[0]), .prime(array ? a_prime : prime), .x(x), .y(factor),
        .a(a), .b(b[0 +: `WORD]), .product(twisted),
        .prime_next(prime_between), .a_next(a_between), .b_next(b_next[0 +: `WORD])
    );
    product_cell generator (
        .clk(clk), .array(array), .drain(drain[1]), .prime(array ? prime_between : prime), .x(factor), .y(step),
        .a(a_between), .b(b[`WORD +: `WORD]), .product(next_factor),
        .prime_next(a_prime_next), .a_next(a_next), .b_next(b_next[`WORD +: `WORD])
    );
endmodule
`default_nettype wire
