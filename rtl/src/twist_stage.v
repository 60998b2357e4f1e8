`default_nettype none
`include "word.vh"
// Twists of all lanes, which are four columns of the array: each row has the twists of two lanes.
module twist_stage #(
    parameter LANES = 64
) (
    input  wire                     clk,
    input  wire                     array,
    input  wire [3:0]               drain,
    input  wire                     valid,  // with x
    input  wire                     inverse,
    input  wire [1:0]               prime,
    input  wire [$clog2(LANES)-1:0] count,
    input  wire [LANES*`WORD-1:0]   x,
    output wire [LANES*`WORD-1:0]   y,
    input  wire [LANES-1:0]         a_prime,  // the array's rows from the left, its columns from above
    input  wire [LANES/2*`WORD-1:0] a,
    input  wire [4*`WORD-1:0]       b,
    output wire [LANES-1:0]         a_prime_next,
    output wire [LANES/2*`WORD-1:0] a_next,
    output wire [4*`WORD-1:0]       b_next
);
    wire [(LANES/2+1)*4*`WORD-1:0] down;
    assign down[0 +: 4*`WORD] = b;
    assign b_next = down[LANES/2*4*`WORD +: 4*`WORD];
    genvar i;
    generate
        for (i = 0; i < LANES / 2; i = i + 1) begin : pairs
            wire [1:0]       prime_between;
            wire [`WORD-1:0] a_between;
            twist_cell #(.LANES(LANES), .LANE(2*i)) left (
                .clk(clk), .array(array), .drain(drain[1:0]),
                .valid(valid), .inverse(inverse), .prime(prime), .count(count),
                .x(x[`WORD*2*i +: `WORD]), .twisted(y[`WORD*2*i +: `WORD]),
                .a_prime(a_prime[2*i +: 2]), .a(a[`WORD*i +: `WORD]), .b(down[`WORD*4*i +: 2*`WORD]),
                .a_prime_next(prime_between), .a_next(a_between), .b_next(down[`WORD*4*(i+1) +: 2*`WORD])
            );
            twist_cell #(.LANES(LANES), .LANE(2*i + 1)) right (
                .clk(clk), .array(array), .drain(drain[3:2]),
                .valid(valid), .inverse(inverse), .prime(prime), .count(count),
                .x(x[`WORD*(2*i+1) +: `WORD]), .twisted(y[`WORD*(2*i+1) +: `WORD]),
                .a_prime(prime_between), .a(a_between), .b(down[`WORD*(4*i+2) +: 2*`WORD]),
                .a_prime_next(a_prime_next[2*i +: 2]), .a_next(a_next[`WORD*i +: `WORD]),
                .b_next(down[`WORD*(4*(i+1)+2) +: 2*`WORD])
            );
        end
    endgenerate
endmodule
`default_nettype wire
