`default_nettype none
`include "word.vh"
// Stage of the second transform, which is a column of the array: LANES / 2 butterflies that
// multiply last, at distance LANES / 2^(STAGE + 1).
//
// Lanes enter in order and leave the last stage bit-reversed, in both directions. Forward, the
// stages use the even powers of omega = psi^LANES, because the twist has applied the odd ones;
// inverse, the odd powers of 1 / omega.
module dif_stage #(
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
    localparam DISTANCE = LANES >> (STAGE + 1);
    localparam ORDER    = 2 * LANES * LANES;
    // The cells take their twiddles a cycle after x.
    reg inverse1;
    reg [1:0] prime1;
    always @(posedge clk) {inverse1, prime1} <= {inverse, prime};
    wire [(LANES/2+1)*`WORD-1:0] down;
    assign down[0 +: `WORD] = b;
    assign b_next = down[LANES/2*`WORD +: `WORD];
    genvar i;
    generate
        for (i = 0; i < LANES / 2; i = i + 1) begin : cells
            localparam OFFSET = i % DISTANCE;
            localparam LOW    = i / DISTANCE * 2 * DISTANCE + OFFSET;
            localparam HIGH   = LOW + DISTANCE;
            localparam TURN   = (2 * OFFSET * LANES) << STAGE;
            wire [`WORD-1:0] w;
            twiddle_rom #(
                .LANES(LANES), .FORWARD(TURN), .INVERSE(ORDER - TURN - (LANES << STAGE))
            ) rom (.inverse(inverse1), .prime(prime1), .w(w));
            dif_cell butterfly (
                .clk(clk), .array(array), .drain(drain), .prime(array ? a_prime[2*i +: 2] : prime),
                .x(x[`WORD*LOW +: `WORD]), .y(x[`WORD*HIGH +: `WORD]), .w(w),
                .a(a[`WORD*i +: `WORD]), .b(down[`WORD*i +: `WORD]),
                .sum(y[`WORD*LOW +: `WORD]), .product(y[`WORD*HIGH +: `WORD]),
                .prime_next(a_prime_next[2*i +: 2]), .a_next(a_next[`WORD*i +: `WORD]),
                .b_next(down[`WORD*(i+1) +: `WORD])
            );
        end
    endgenerate
endmodule
`default_nettype wire
