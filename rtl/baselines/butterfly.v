`default_nettype none
`include "word.vh"
// Baseline for `dit_cell`: the same butterfly, which is not a cell of the array.
module butterfly (
    input  wire             clk,
    input  wire [1:0]       prime,
    input  wire [`WORD-1:0] x,
    input  wire [`WORD-1:0] y,
    input  wire [`WORD-1:0] w,
    output reg  [`WORD-1:0] sum,
    output reg  [`WORD-1:0] difference
);
    wire [1:0]       prime_after_1, prime_of_product;
    wire [`WORD-1:0] t, t_plus, minus_t;
    modmul multiply (
        .clk(clk), .prime(prime), .a(y), .b(w), .prime_after_1(prime_after_1), .prime_after_4(prime_of_product), .r(t)
    );
    reg [`WORD-1:0] x1, x2, x3, x4;
    modadd add (.prime(prime_of_product), .a(x4), .b(t), .r(t_plus));
    modsub subtract (.prime(prime_of_product), .a(x4), .b(t), .r(minus_t));
    always @(posedge clk) begin
        {x4, x3, x2, x1} <= {x3, x2, x1, x};
        sum        <= t_plus;
        difference <= minus_t;
    end
    wire unused = &{1'b0, prime_after_1};
endmodule
`default_nettype wire
