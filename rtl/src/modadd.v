`default_nettype none
`include "word.vh"
// Computes a + b mod q for a, b < q.
module modadd (
    input  wire [1:0]       prime,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] r
);
    `include "modulus.vh"
    wire [`WORD:0] sum = {1'b0, a} + {1'b0, b};
    // The difference is at least -q and less than q, so the highest of its 29 bits is its sign: 1
    // if the sum is less than q.
    wire [`WORD:0] difference = sum - {1'b0, modulus(prime)};
    assign r = difference[`WORD] ? sum[`WORD-1:0] : difference[`WORD-1:0];
endmodule
`default_nettype wire
