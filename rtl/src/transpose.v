`default_nettype none
`include "word.vh"
// Transposes matrices of LANES rows, one row per cycle. The first column leaves with the last row.
// Matrices may follow each other directly or at any distance.
//
// For each bit b of the lane and row numbers, blocks of 2^b lanes and rows are swapped across the
// diagonal. The upper lanes wait 2^b cycles, are swapped with the lower lanes if bit b of the row
// number is set, and then the lower lanes wait. In total, LANES (LANES - 1) words are held.
module transpose #(
    parameter LANES = 64
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire [$clog2(LANES)-1:0] row,  // with x; 0 between matrices
    input  wire [LANES*`WORD-1:0]   x,
    output wire [LANES*`WORD-1:0]   y     // LANES - 1 cycles later
);
    localparam BITS = $clog2(LANES);
    localparam HALF = LANES / 2;
    genvar bit_number, i;
    generate
        for (bit_number = 0; bit_number < BITS; bit_number = bit_number + 1) begin : steps
            localparam BLOCK = 1 << bit_number;
            wire [LANES*`WORD-1:0] entering, changed;
            wire [BITS-1:0]        number;
            if (bit_number == 0) begin : first
                assign entering = x;
                assign number = row;
            end else begin : following
                assign entering = steps[bit_number-1].changed;
                delay #(.WIDTH(BITS), .DEPTH(BLOCK / 2)) count (
                    .clk(clk), .rst(rst), .in(steps[bit_number-1].number), .out(number)
                );
            end
            wire [HALF*`WORD-1:0] upper, waited, lower, leaving;
            for (i = 0; i < HALF; i = i + 1) begin : pairs
                localparam LOW  = i / BLOCK * 2 * BLOCK + i % BLOCK;
                localparam HIGH = LOW + BLOCK;
                wire [`WORD-1:0] earlier = waited[`WORD*i +: `WORD];
                wire [`WORD-1:0] now     = entering[`WORD*LOW +: `WORD];
                assign upper[`WORD*i +: `WORD]    = entering[`WORD*HIGH +: `WORD];
                assign lower[`WORD*i +: `WORD]    = number[bit_number] ? earlier : now;
                assign changed[`WORD*HIGH +: `WORD] = number[bit_number] ? now : earlier;
                assign changed[`WORD*LOW +: `WORD]  = leaving[`WORD*i +: `WORD];
            end
            delay_memory #(.WIDTH(HALF * `WORD), .DEPTH(BLOCK)) wait_upper (
                .clk(clk), .rst(rst), .in(upper), .out(waited)
            );
            delay_memory #(.WIDTH(HALF * `WORD), .DEPTH(BLOCK)) wait_lower (
                .clk(clk), .rst(rst), .in(lower), .out(leaving)
            );
        end
    endgenerate
    assign y = steps[BITS-1].changed;
    wire unused = &{1'b0, steps[BITS-1].number};
endmodule
`default_nettype wire
