`default_nettype none
// Delays `in` by DEPTH cycles, in a memory that is read and written at one address per cycle. DEPTH
// is a power of two. The output of the first DEPTH cycles is undefined.
module delay_memory #(
    parameter WIDTH = 1,
    parameter DEPTH = 2
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
    generate
        if (DEPTH == 1) begin : one
            reg [WIDTH-1:0] held;
            always @(posedge clk) held <= in;
            assign out = held;
            wire unused = &{1'b0, rst};
        end else begin : many
            reg [WIDTH-1:0] held [0:DEPTH-1];
            reg [$clog2(DEPTH)-1:0] place;
            assign out = held[place];
            always @(posedge clk) begin
                held[place] <= in;
                place       <= rst ? 0 : place + 1;
            end
        end
    endgenerate
endmodule
`default_nettype wire
