`default_nettype none
`include "word.vh"
// Constants of a lane's twist: the factors of the first four cycles (`seed`), and the ratio of
// factors four cycles apart (`step`).
//
// Let l' be the lane's number, bit-reversed. The factor of cycle c is psi^((2 l' + 1) c) in the
// forward transform, and psi^(-(2 c + 1) l') / N in the inverse.
module twist_rom #(
    parameter LANES = 64,
    parameter LANE  = 0
) (
    input  wire             inverse,
    input  wire [1:0]       prime,
    input  wire [1:0]       count,
    output wire [`WORD-1:0] seed,
    output wire [`WORD-1:0] step
);
    `include "roots.vh"
    `include "reversed.vh"
    localparam DEGREE = LANES * LANES;
    localparam ORDER  = 2 * DEGREE;
    localparam TURNED = reversed(LANE, $clog2(LANES));
    wire [32*`WORD-1:0] seeds;
    wire [8*`WORD-1:0]  steps;
    genvar i, c;
    generate
        for (i = 0; i < 8; i = i + 1) begin : entries
            localparam [`WORD-1:0] STEP =
                twiddle((i < 4 ? 4 * (2 * TURNED + 1) : ORDER - 8 * TURNED) % ORDER, 1, i % 4, DEGREE);
            assign steps[`WORD*i +: `WORD] = STEP;
            for (c = 0; c < 4; c = c + 1) begin : cycles
                localparam [`WORD-1:0] SEED = i < 4
                    ? twiddle((2 * TURNED + 1) * c, 1, i % 4, DEGREE)
                    : twiddle((ORDER - (2 * c + 1) * TURNED) % ORDER, inverse_degree(i % 4, DEGREE), i % 4, DEGREE);
                assign seeds[`WORD*(4*i + c) +: `WORD] = SEED;
            end
        end
    endgenerate
    assign seed = seeds[`WORD*{inverse, prime, count} +: `WORD];
    assign step = steps[`WORD*{inverse, prime} +: `WORD];
endmodule
`default_nettype wire
