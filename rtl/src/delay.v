`default_nettype none
// Delays `in` by DEPTH cycles, in registers that a reset clears.
module delay #(
    parameter WIDTH = 1,
    parameter DEPTH = 1
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
    generate
        if (DEPTH == 0) begin : none
            assign out = in;
            wire unused = &{1'b0, clk, rst};
        end else begin : some
            reg [WIDTH*DEPTH-1:0] held;
            wire [WIDTH*(DEPTH+1)-1:0] shifted = {held, in};
            always @(posedge clk) held <= rst ? 0 : shifted[WIDTH*DEPTH-1:0];
            assign out = shifted[WIDTH*DEPTH +: WIDTH];
        end
    endgenerate
endmodule
`default_nettype wire
