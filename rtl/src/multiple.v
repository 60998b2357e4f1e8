`default_nettype none
`include "word.vh"
// Computes m (q - 1) / 2^15 for the special primes q = 2^27 + 2^k + 1: the product by q, with two
// shifts and an addition.
//
// m q itself has 43 bits: 15 of m and 28 of q. Because 2^15 divides q - 1, its lowest 15 bits are
// m, which cancel and need no adder; 28 bits are left.
module multiple (
    input  wire [1:0]       prime,
    input  wire [14:0]      m,
    output wire [`WORD-1:0] r
);
    reg [21:0] shifted;
    always @* case (prime)
        2'd0: shifted = {7'd0, m};        // 2^(15-15)
        2'd1: shifted = {5'd0, m, 2'd0};  // 2^(17-15)
        2'd2: shifted = {1'd0, m, 6'd0};  // 2^(21-15)
        2'd3: shifted = {m, 7'd0};        // 2^(22-15)
    endcase
    assign r = {1'd0, m, 12'd0} + {6'd0, shifted};
endmodule
`default_nettype wire
