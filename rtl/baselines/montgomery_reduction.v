`default_nettype none
`include "word.vh"
// Montgomery's reduction for any odd q of 28 bits. Computes c / 2^28 mod q for c < 2^28 q, by two
// multipliers of 28 by 28 bits.
module montgomery_reduction (
    input  wire               clk,
    input  wire [`WORD-1:0]   q,
    input  wire [`WORD-1:0]   inverse,  // 1/q mod 2^28
    input  wire [2*`WORD-1:0] c,
    output reg  [`WORD-1:0]   r
);
    reg [`WORD-1:0] m, high, later;
    wire [2*`WORD-1:0] multiple = m * later;
    // c - m q is divisible by 2^28: the lower halves of c and m q are equal and cancel.
    wire [`WORD:0] difference = {1'b0, high} - {1'b0, multiple[2*`WORD-1:`WORD]};
    always @(posedge clk) begin
        later <= q;
        m     <= c[`WORD-1:0] * inverse;
        high  <= c[2*`WORD-1:`WORD];
        r     <= difference[`WORD-1:0] + (later & {`WORD{difference[`WORD]}});
    end
    wire unused = &{1'b0, multiple[`WORD-1:0]};
endmodule
`default_nettype wire
