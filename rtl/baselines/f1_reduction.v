`default_nettype none
`include "word.vh"
// Reduction like `reduction.v`, for any prime that is 1 mod 2^15, in the style of F1. A multiplier
// of 15 by 13 bits computes m (q - 1) / 2^15, in place of two shifts and an addition; there are two
// of them.
module f1_reduction (
    input  wire               clk,
    input  wire [`WORD-1:0]   q,
    input  wire [2*`WORD-1:0] c,
    output reg  [`WORD-1:0]   r
);
    reg signed [41:0] half;
    reg [`WORD-1:0]   later;
    wire [`WORD-1:0]  first_multiple  = {13'd0, c[14:0]} * {15'd0, q[`WORD-1:15]};
    wire [`WORD-1:0]  second_multiple = {13'd0, half[14:0]} * {15'd0, later[`WORD-1:15]};
    wire [28:0] difference = {{2{half[41]}}, half[41:15]} - {1'b0, second_multiple};
    always @(posedge clk) begin
        later <= q;
        half  <= {1'b0, c[55:15]} - {14'd0, first_multiple};
        r     <= difference[`WORD-1:0] + (later & {`WORD{difference[28]}});
    end
    wire unused = &{1'b0, q[14:0]};
endmodule
`default_nettype wire
