`default_nettype none
`include "word.vh"
// Stage of the first transform, which is a column of the array: LANES / 2 butterflies that multiply
// first, at distance LANES / 2^(STAGE + 1).
//
// Lanes enter in order and leave the last stage bit-reversed, in both directions. Forward, the
// stages evaluate at the odd powers of omega = psi^LANES (the roots of Y^LANES + 1, as `NttPlan`
// does); inverse, at the even powers of 1 / omega.
module dit_stage #(
    parameter LANES = 64,
    parameter STAGE = 0
) (
    input  wire                   clk,
    input  wire                   array,
    input  wire                   drain,
    input  wire                   inverse,  // with x
    input  wire [1:0]             prime,
    input  wire [LANES*`WORD-1:0] x,
    output wire [LANES*`WORD-1:0] y,
    input  wire [LANES-1:0]         a_prime,  // the array's rows from the left, its column from above
    input  wire [LANES/2*`WORD-1:0] a,
    input  wire [`WORD-1:0]         b,
    output wire [LANES-1:0]         a_prime_next,
    output wire [LANES/2*`WORD-1:0] a_next,
    output wire [`WORD-1:0]         b_next
);
    `include "reversed.vh"
    localparam DISTANCE = LANES >> (STAGE + 1);
    localparam ORDER    = 2 * LANES * LANES;
    wire [(LANES/2+1)*`WORD-1:0] down;
    assign down[0 +: `WORD] = b;
    assign b_next = down[LANES/2*`WORD +: `WORD];
    genvar i;
    generate
        for (i = 0; i < LANES / 2; i = i + 1) begin : cells
            localparam GROUP = i / DISTANCE;
            localparam LOW   = GROUP * 2 * DISTANCE + i % DISTANCE;
            localparam HIGH  = LOW + DISTANCE;
            localparam TURN  = 2 * reversed(GROUP, STAGE) * DISTANCE * LANES;
            wire [`WORD-1:0] w;
            twiddle_rom #(
                .LANES(LANES), .FORWARD(TURN + DISTANCE * LANES), .INVERSE((ORDER - TURN) % ORDER)
            ) rom (.inverse(inverse), .prime(prime), .w(w));
            dit_cell butterfly (
                .clk(clk), .array(array), .drain(drain), .prime(array ? a_prime[2*i +: 2] : prime),
                .x(x[`WORD*LOW +: `WORD]), .y(x[`WORD*HIGH +: `WORD]), .w(w),
                .a(a[`WORD*i +: `WORD]), .b(down[`WORD*i +: `WORD]),
                .sum(y[`WORD*LOW +: `WORD]), .difference(y[`WORD*HIGH +: `WORD]),
                .prime_next(a_prime_next[2*i +: 2]), .a_next(a_next[`WORD*i +: `WORD]),
                .b_next(down[`WORD*(i+1) +: `WORD])
            );
        end
    endgenerate
endmodule
`default_nettype wire
