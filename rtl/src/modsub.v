`default_nettype none
`include "word.vh"
// Computes a - b mod q for a, b < q.
module modsub (
    input  wire [1:0]       prime,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] r
);
    `include "modulus.vh"
    wire [`WORD:0] difference = {1'b0, a} - {1'b0, b};
    assign r = difference[`WORD-1:0] + (modulus(prime) & {`WORD{difference[`WORD]}});
endmodule
`default_nettype wire
