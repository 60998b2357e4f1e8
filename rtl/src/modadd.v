`default_nettype none
`include "word.vh"
// a + b mod q for a, b < q.
module modadd (
    input  wire [1:0]       prime,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] r
);
    `include "modulus.vh"
    wire [`WORD:0] sum = {1'b0, a} + {1'b0, b};
    // Less than q and not below -q, so that of 29 bits the highest is the sign: whether q was not reached.
    wire [`WORD:0] difference = sum - {1'b0, modulus(prime)};
    assign r = difference[`WORD] ? sum[`WORD-1:0] : difference[`WORD-1:0];
endmodule
`default_nettype wire
