`default_nettype none
`include "word.vh"
// Twiddles of a butterfly: for each prime, a power of psi for the forward and one for the inverse
// transform.
module twiddle_rom #(
    parameter LANES   = 64,
    parameter FORWARD = 0,  // exponents, from 0 to 2N - 1
    parameter INVERSE = 0
) (
    input  wire             inverse,
    input  wire [1:0]       prime,
    output wire [`WORD-1:0] w
);
    `include "roots.vh"
    wire [8*`WORD-1:0] words;
    genvar i;
    generate
        for (i = 0; i < 8; i = i + 1) begin : entries
            localparam [`WORD-1:0] VALUE = twiddle(i < 4 ? FORWARD : INVERSE, 1, i % 4, LANES * LANES);
            assign words[`WORD*i +: `WORD] = VALUE;
        end
    endgenerate
    assign w = words[`WORD*{inverse, prime} +: `WORD];
endmodule
`default_nettype wire
