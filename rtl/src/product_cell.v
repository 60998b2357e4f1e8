`default_nettype none
`include "word.vh"
// Multiplier, half of a twist; also a cell of the array.
//
// Transform: x y / 2^30, four cycles later. Array: as in `dit_cell`. Nothing is delayed here, so
// the registers and the adder serve only the array.
module product_cell (
    input  wire             clk,
    input  wire             array,
    input  wire             drain,
    input  wire [1:0]       prime,  // with the operands
    input  wire [`WORD-1:0] x,
    input  wire [`WORD-1:0] y,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] product,
    output wire [1:0]       prime_next,
    output reg  [`WORD-1:0] a_next,
    output reg  [`WORD-1:0] b_next
);
    wire [1:0]       prime_of_product;
    reg  [`WORD-1:0] sum;
    wire [`WORD-1:0] added;
    modmul multiply (
        .clk(clk), .prime(prime), .a(array ? a : x), .b(array ? b : y),
        .prime_after_1(prime_next), .prime_after_4(prime_of_product), .r(product)
    );
    modadd add (.prime(prime_of_product), .a(sum), .b(product), .r(added));
    always @(posedge clk) begin
        a_next <= a;
        b_next <= drain ? sum : b;
        sum    <= drain | ~array ? 0 : added;
    end
endmodule
`default_nettype wire
