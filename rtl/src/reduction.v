`default_nettype none
`include "word.vh"
// Computes c / 2^30 mod q in [0, q) for every c of 56 bits, two cycles later: Montgomery's
// reduction, 15 bits at a time.
//
// Because q is 1 mod 2^15, c - (c mod 2^15) q is divisible by 2^15, and finding the factor needs no
// multiplication. Two such steps give (c - s q) / 2^30 with 0 <= s < 2^30. It lies above -q and,
// because c < 2^56, below 2^26 < q.
module reduction (
    input  wire               clk,
    input  wire [1:0]         prime,  // with c
    input  wire [2*`WORD-1:0] c,
    output reg  [`WORD-1:0]   r
);
    `include "modulus.vh"

    wire [`WORD-1:0] first_multiple, second_multiple;
    reg  [1:0]       later;
    reg  signed [41:0] half;  // (c - m q) / 2^15
    multiple first (.prime(prime), .m(c[14:0]), .r(first_multiple));
    multiple second (.prime(later), .m(half[14:0]), .r(second_multiple));

    // With their signs, half / 2^15 has 27 bits and the difference has 29.
    wire [28:0] difference = {{2{half[41]}}, half[41:15]} - {1'b0, second_multiple};
    wire [`WORD-1:0] q = modulus(later);
    always @(posedge clk) begin
        later <= prime;
        half  <= {1'b0, c[55:15]} - {14'd0, first_multiple};
        r     <= difference[`WORD-1:0] + (q & {`WORD{difference[28]}});
    end
endmodule
`default_nettype wire
