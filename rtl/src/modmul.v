`default_nettype none
`include "word.vh"
// Computes a b / 2^30 mod q in [0, q), four cycles later, for any words a and b. If one factor is
// in Montgomery form, 2^30 x mod q, the result is the plain product x b mod q. The database and all
// twiddles are stored in this form.
module modmul (
    input  wire             clk,
    input  wire [1:0]       prime,        // with a and b
    input  wire [`WORD-1:0] a,
    input  wire [`WORD-1:0] b,
    output wire [1:0]       prime_after_1,
    output wire [1:0]       prime_after_4,  // with r
    output wire [`WORD-1:0] r
);
    reg [7:0] primes;
    always @(posedge clk) primes <= {primes[5:0], prime};
    assign prime_after_1 = primes[1:0];
    assign prime_after_4 = primes[7:6];

    wire [2*`WORD-1:0] c;
    product multiply (.clk(clk), .a(a), .b(b), .c(c));
    reduction reduce (.clk(clk), .prime(primes[3:2]), .c(c), .r(r));
endmodule
`default_nettype wire
