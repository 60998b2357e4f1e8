`default_nettype none
`include "word.vh"
// Butterfly that multiplies first (Cooley and Tukey's); also a cell of the array.
//
// Transform: x + y w and x - y w, five cycles later. w is in Montgomery form.
// Array: sum += a b, five cycles later. a goes to the next cell of the row, and b to the next cell
// of the column, one cycle later. With `drain`, the sum goes down the column in place of b and
// becomes zero.
//
// The array has no registers of its own: a and b pass through the first two of the four registers
// that delay x, and products accumulate in the transform's sum.
module dit_cell (
    input  wire             clk,
    input  wire             array,
    input  wire             drain,
    input  wire [1:0]       prime,  // with the operands
    input  wire [`WORD-1:0] x,
    input  wire [`WORD-1:0] y,
    input  wire [`WORD-1:0] w,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output reg  [`WORD-1:0] sum,
    output reg  [`WORD-1:0] difference,
    output wire [1:0]       prime_next,
    output wire [`WORD-1:0] a_next,
    output wire [`WORD-1:0] b_next
);
    wire [1:0]       prime_of_product;
    wire [`WORD-1:0] t, t_plus, minus_t;
    modmul multiply (
        .clk(clk), .prime(prime), .a(array ? a : y), .b(array ? b : w),
        .prime_after_1(prime_next), .prime_after_4(prime_of_product), .r(t)
    );

    reg [`WORD-1:0] x1, x2, x3, x4;
    modadd add (.prime(prime_of_product), .a(array ? sum : x4), .b(t), .r(t_plus));
    modsub subtract (.prime(prime_of_product), .a(x4), .b(t), .r(minus_t));
    always @(posedge clk) begin
        x1         <= array ? a : x;
        x2         <= drain ? sum : array ? b : x1;
        x3         <= x2;
        x4         <= x3;
        sum        <= drain ? 0 : t_plus;
        difference <= minus_t;
    end
    assign a_next = x1;
    assign b_next = x2;
endmodule
`default_nettype wire
