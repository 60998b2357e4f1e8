`default_nettype none
`include "word.vh"
// Butterfly that multiplies last (Gentleman and Sande's); also a cell of the array.
//
// Transform: x + y and (x - y) w, five cycles later. w is in Montgomery form and comes a cycle
// after x and y.
// Array: as in `dit_cell`. Here too, products accumulate in the transform's sum. a and b pass
// through the next two of the five registers that delay the sum.
module dif_cell (
    input  wire             clk,
    input  wire             array,
    input  wire             drain,
    input  wire [1:0]       prime,  // with the operands
    input  wire [`WORD-1:0] x,
    input  wire [`WORD-1:0] y,
    input  wire [`WORD-1:0] w,
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [`WORD-1:0] sum,
    output wire [`WORD-1:0] product,
    output wire [1:0]       prime_next,
    output wire [`WORD-1:0] a_next,
    output wire [`WORD-1:0] b_next
);
    reg  [1:0]       prime1;
    reg  [`WORD-1:0] s1, s2, s3, s4, s5, d1;
    wire [1:0]       prime_of_product;
    wire [`WORD-1:0] added, subtracted;
    modmul multiply (
        .clk(clk), .prime(array ? prime : prime1), .a(array ? a : d1), .b(array ? b : w),
        .prime_after_1(prime_next), .prime_after_4(prime_of_product), .r(product)
    );
    modadd add (
        .prime(array ? prime_of_product : prime), .a(array ? s1 : x), .b(array ? product : y), .r(added)
    );
    modsub subtract (.prime(prime), .a(x), .b(y), .r(subtracted));
    always @(posedge clk) begin
        prime1 <= prime;
        d1     <= subtracted;
        s1     <= drain ? 0 : added;
        s2     <= array ? a : s1;
        s3     <= drain ? s1 : array ? b : s2;
        s4     <= s3;
        s5     <= s4;
    end
    assign sum = s5;
    assign a_next = s2;
    assign b_next = s3;
endmodule
`default_nettype wire
