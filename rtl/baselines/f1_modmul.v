`default_nettype none
`include "word.vh"
// Baseline for `modmul`: the multiplier for primes that are 1 mod 2^15, in the style of F1. It has
// the same number of cycles and registers. q is an input.
module f1_modmul (
    input  wire             clk,
    input  wire [`WORD-1:0] q,  // two cycles after a and b
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] r
);
    wire [2*`WORD-1:0] c;
    product multiply (.clk(clk), .a(a), .b(b), .c(c));
    f1_reduction reduce (.clk(clk), .q(q), .c(c), .r(r));
endmodule
`default_nettype wire
