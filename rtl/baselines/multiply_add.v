`default_nettype none
`include "word.vh"
// Baseline for the cells: a cell of an output-stationary array with no other function.
module multiply_add (
    input  wire             clk,
    input  wire             drain,
    input  wire [1:0]       prime,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [1:0]       prime_next,
    output reg  [`WORD-1:0] a_next,
    output reg  [`WORD-1:0] b_next
);
    wire [1:0]       prime_of_product;
    reg  [`WORD-1:0] sum;
    wire [`WORD-1:0] product, added;
    modmul multiply (
        .clk(clk), .prime(prime), .a(a), .b(b),
        .prime_after_1(prime_next), .prime_after_4(prime_of_product), .r(product)
    );
    modadd add (.prime(prime_of_product), .a(sum), .b(product), .r(added));
    always @(posedge clk) begin
        a_next <= a;
        b_next <= drain ? sum : b;
        sum    <= drain ? 0 : added;
    end
endmodule
`default_nettype wire
