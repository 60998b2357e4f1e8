`default_nettype none
`include "word.vh"
// Baseline for `modmul`: Montgomery's multiplier for any odd q. It has the same number of cycles. q
// and its inverse are inputs.
module montgomery_modmul (
    input  wire             clk,
    input  wire [`WORD-1:0] q,        // two cycles after a and b
    input  wire [`WORD-1:0] inverse,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] r
);
    wire [2*`WORD-1:0] c;
    product multiply (.clk(clk), .a(a), .b(b), .c(c));
    montgomery_reduction reduce (.clk(clk), .q(q), .inverse(inverse), .c(c), .r(r));
endmodule
`default_nettype wire
