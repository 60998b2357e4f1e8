`default_nettype none
`include "word.vh"
// a b, two cycles later. The second register is there for whoever maps this to gates to move into the multiplier.
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
