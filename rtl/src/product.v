`default_nettype none
`include "word.vh"
// Computes a b, two cycles later. A synthesis tool can move the second register into the
// multiplier.
module product (
    input  wire                 clk,
    input  wire [`WORD-1:0]     a,
    input  wire [`WORD-1:0]     b,
    output reg  [2*`WORD-1:0]   c
);
    reg [2*`WORD-1:0] early;
    always @(posedge clk) begin
        early <= a * b;
        c     <= early;
    end
endmodule
`default_nettype wire
