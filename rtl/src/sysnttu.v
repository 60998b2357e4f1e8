`default_nettype none
`include "word.vh"
// IVE's versatile transform unit (sysNTTU, section IV-C): transforms of N = LANES^2 coefficients, LANES a cycle; and on
// the same multipliers an output-stationary array of LANES / 2 rows and 2 log2(LANES) + 4 columns.
//
// Transforms. Coefficient j + LANES i of a polynomial is in lane i of vector j; so are the values: that at the power
// 2 f + 1 of psi is f's in the same order. Vectors come in order, one a cycle and without a gap, from the cycle in which
// `transform_start` meets `transform_ready`; they leave in the order of their numbers back to front, `transformed_index`
// being where they belong. (Lanes change places by wires, vectors by the address that they are written to: this is the
// bit reversal.) Forward takes coefficients to values, inverse goes back and divides by N.
//
// Array. Each cycle with `array_valid` and `array_ready` brings a column of the left matrix (the database's, in
// Montgomery's form) and a row of the right one (the queries'); `array_last` says that a product is complete. Its rows
// leave from the last to the first, one a cycle. Cycles in between are allowed at any place.
//
// `array_wanted` chooses what is ready next; the unit changes when all that was begun is over.
module sysnttu #(
    parameter LANES   = 64,
    // What follows from it:
    parameter ROWS    = LANES / 2,
    parameter COLUMNS = 2 * $clog2(LANES) + 4
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire                     array_wanted,

    output wire                     transform_ready,
    input  wire                     transform_start,
    input  wire                     transform_inverse,  // with the first vector
    input  wire [1:0]               transform_prime,
    input  wire [LANES*`WORD-1:0]   coefficients,
    output wire                     transformed_valid,
    output wire [$clog2(LANES)-1:0] transformed_index,
    output wire [LANES*`WORD-1:0]   transformed,

    output wire                       array_ready,
    input  wire                       array_valid,
    input  wire                       array_last,
    input  wire [1:0]                 array_prime,
    input  wire [ROWS*`WORD-1:0]      left,
    input  wire [COLUMNS*`WORD-1:0]   right,
    output wire                       product_valid,
    output wire [$clog2(ROWS)-1:0]    product_row,
    output wire [COLUMNS*`WORD-1:0]   product
);
    localparam BITS      = $clog2(LANES);
    localparam BUTTERFLY = 5;  // cycles of the cells
    localparam TWIST     = 4;
    // From a vector to what it is the last to change: the stages, the twist, and the transpose.
    localparam LATENCY   = 2 * BITS * BUTTERFLY + TWIST + LANES - 1;
    // From the last operands of a product to the cycle in which its first column drains: its last row is complete.
    localparam COMPLETE  = ROWS + BUTTERFLY - 1;

    // From the last operands of a product to its last result.
    localparam DRAINED   = COMPLETE + COLUMNS - 1 + ROWS;

    // The two ways to work, and when they change: when nothing is on its way. After a reset the array waits as well
    // until the transforms' registers are zero, as it begins with them.
    reg  array;
    reg  [BITS-1:0] count;
    reg  open;  // a product has begun and is not complete
    wire [$clog2(LATENCY)-1:0]    transforming;
    wire [$clog2(DRAINED)-1:0]    multiplying;
    wire [$clog2(COMPLETE+1)-1:0] closing;
    wire start  = transform_start & transform_ready;
    wire taking = start | count != 0;
    wire pair   = array_valid & array_ready;
    reg  fresh;
    countdown #(.FROM(LATENCY - 1)) last_vector (.clk(clk), .rst(rst), .start(taking | fresh), .left(transforming));
    countdown #(.FROM(DRAINED - 1)) last_pair (.clk(clk), .rst(rst), .start(pair), .left(multiplying));
    countdown #(.FROM(COMPLETE)) completion (.clk(clk), .rst(rst), .start(pair & array_last), .left(closing));
    wire idle = array ? multiplying == 0 & !pair & !open : transforming == 0 & !taking & !fresh;
    assign transform_ready = !array & !array_wanted & count == 0;
    assign array_ready     = array & (array_wanted | open) & closing == 0;
    always @(posedge clk) begin
        fresh <= rst;
        array <= rst ? 0 : idle ? array_wanted : array;
        count <= rst ? 0 : taking ? count + 1 : 0;
        open  <= rst ? 0 : pair ? !array_last : open;
    end

    // What goes along with a vector: whether it is one, direction, prime, and its number in its polynomial.
    localparam TAG = BITS + 4;
    reg [2:0] kind;
    wire [2:0] kind_now = start ? {transform_inverse, transform_prime} : kind;
    always @(posedge clk) kind <= kind_now;
    wire [TAG-1:0] tag = taking ? {1'b1, kind_now, count} : 0;

    // Rows enter the array skewed, a cycle later for each; so do columns. A prime stays until the next product's.
    reg  [1:0] prime_before;
    wire [1:0] prime_now = pair ? array_prime : prime_before;
    always @(posedge clk) prime_before <= rst ? 0 : prime_now;
    wire [2*ROWS-1:0]        row_prime;
    wire [ROWS*`WORD-1:0]    row;
    wire [COLUMNS*`WORD-1:0] column, bottom;
    genvar r, c;
    generate
        for (r = 0; r < ROWS; r = r + 1) begin : row_skew
            delay #(.WIDTH(`WORD + 2), .DEPTH(r)) line (
                .clk(clk), .rst(rst), .in({prime_now, left[`WORD*r +: `WORD] & {`WORD{pair}}}),
                .out({row_prime[2*r +: 2], row[`WORD*r +: `WORD]})
            );
        end
        for (c = 0; c < COLUMNS; c = c + 1) begin : column_skew
            delay #(.WIDTH(`WORD), .DEPTH(c)) line (
                .clk(clk), .rst(rst), .in(right[`WORD*c +: `WORD] & {`WORD{pair}}), .out(column[`WORD*c +: `WORD])
            );
            // And leave it in step.
            delay #(.WIDTH(`WORD), .DEPTH(COLUMNS - 1 - c)) back (
                .clk(clk), .rst(rst), .in(bottom[`WORD*c +: `WORD]), .out(product[`WORD*c +: `WORD])
            );
        end
    endgenerate

    // A column drains when its last row is complete, each a cycle after the one before.
    wire [COLUMNS-1:0] drain;
    delay #(.WIDTH(1), .DEPTH(COMPLETE)) complete (
        .clk(clk), .rst(rst), .in(pair & array_last), .out(drain[0])
    );
    delay #(.WIDTH(COLUMNS - 1), .DEPTH(1)) onward (
        .clk(clk), .rst(rst), .in(drain[COLUMNS-2:0]), .out(drain[COLUMNS-1:1])
    );
    wire [$clog2(ROWS+1)-1:0] leaving;
    countdown #(.FROM(ROWS)) results (.clk(clk), .rst(rst), .start(drain[COLUMNS-1]), .left(leaving));
    wire [$clog2(ROWS+1)-1:0] row_number = leaving - 1;
    assign product_valid = leaving != 0;
    assign product_row   = row_number[$clog2(ROWS)-1:0];

    // The columns, from left to right: the first transform's stages, the twists, the second's; the transpose is between
    // the latter, where rows of the array pass by.
    generate
        for (c = 0; c < BITS; c = c + 1) begin : first
            wire [TAG-1:0]            tag_in, tag_out;
            wire [LANES*`WORD-1:0]    x, y;
            wire [2*ROWS-1:0]         prime_in, prime_out;
            wire [ROWS*`WORD-1:0]     a_in, a_out;
            if (c == 0) begin : outer
                assign tag_in   = tag;
                assign x        = coefficients & {LANES*`WORD{taking}};
                assign prime_in = row_prime;
                assign a_in     = row;
            end else begin : inner
                assign tag_in   = first[c-1].tag_out;
                assign x        = first[c-1].y;
                assign prime_in = first[c-1].prime_out;
                assign a_in     = first[c-1].a_out;
            end
            delay #(.WIDTH(TAG), .DEPTH(BUTTERFLY)) tags (.clk(clk), .rst(rst), .in(tag_in), .out(tag_out));
            dit_stage #(.LANES(LANES), .STAGE(c)) stage (
                .clk(clk), .array(array), .drain(drain[c]),
                .inverse(tag_in[BITS+2]), .prime(tag_in[BITS +: 2]), .x(x), .y(y),
                .a_prime(prime_in), .a(a_in), .b(column[`WORD*c +: `WORD]),
                .a_prime_next(prime_out), .a_next(a_out), .b_next(bottom[`WORD*c +: `WORD])
            );
        end
    endgenerate

    wire [TAG-1:0]         tag_before = first[BITS-1].tag_out;
    wire [TAG-1:0]         tag_twisted, tag_after;
    wire [LANES*`WORD-1:0] twisted, turned;
    wire [2*ROWS-1:0]      prime_between;
    wire [ROWS*`WORD-1:0]  a_between;
    delay #(.WIDTH(TAG), .DEPTH(TWIST)) twist_tags (.clk(clk), .rst(rst), .in(tag_before), .out(tag_twisted));
    twist_stage #(.LANES(LANES)) twist (
        .clk(clk), .array(array), .drain(drain[BITS +: 4]),
        .valid(tag_before[BITS+3]), .inverse(tag_before[BITS+2]), .prime(tag_before[BITS +: 2]),
        .count(tag_before[BITS-1:0]), .x(first[BITS-1].y), .y(twisted),
        .a_prime(first[BITS-1].prime_out), .a(first[BITS-1].a_out), .b(column[`WORD*BITS +: 4*`WORD]),
        .a_prime_next(prime_between), .a_next(a_between), .b_next(bottom[`WORD*BITS +: 4*`WORD])
    );
    delay #(.WIDTH(TAG), .DEPTH(LANES - 1)) turned_tags (
        .clk(clk), .rst(rst), .in(tag_twisted), .out(tag_after)
    );
    transpose #(.LANES(LANES)) turn (.clk(clk), .rst(rst), .row(tag_twisted[BITS-1:0]), .x(twisted), .y(turned));

    generate
        for (c = 0; c < BITS; c = c + 1) begin : second
            localparam COLUMN = BITS + 4 + c;
            wire [TAG-1:0]            tag_in, tag_out;
            wire [LANES*`WORD-1:0]    x, y;
            wire [2*ROWS-1:0]         prime_in, prime_out;
            wire [ROWS*`WORD-1:0]     a_in, a_out;
            if (c == 0) begin : outer
                assign tag_in   = tag_after;
                assign x        = turned;
                assign prime_in = prime_between;
                assign a_in     = a_between;
            end else begin : inner
                assign tag_in   = second[c-1].tag_out;
                assign x        = second[c-1].y;
                assign prime_in = second[c-1].prime_out;
                assign a_in     = second[c-1].a_out;
            end
            delay #(.WIDTH(TAG), .DEPTH(BUTTERFLY)) tags (.clk(clk), .rst(rst), .in(tag_in), .out(tag_out));
            dif_stage #(.LANES(LANES), .STAGE(c)) stage (
                .clk(clk), .array(array), .drain(drain[COLUMN]),
                .inverse(tag_in[BITS+2]), .prime(tag_in[BITS +: 2]), .x(x), .y(y),
                .a_prime(prime_in), .a(a_in), .b(column[`WORD*COLUMN +: `WORD]),
                .a_prime_next(prime_out), .a_next(a_out), .b_next(bottom[`WORD*COLUMN +: `WORD])
            );
        end
    endgenerate

    wire [TAG-1:0] tag_out = second[BITS-1].tag_out;
    assign transformed_valid = tag_out[BITS+3];
    generate
        for (c = 0; c < BITS; c = c + 1) begin : index
            assign transformed_index[c] = tag_out[BITS-1-c];
        end
        for (r = 0; r < LANES; r = r + 1) begin : lanes
            localparam TURNED = reversed(r, BITS);
            assign transformed[`WORD*r +: `WORD] = second[BITS-1].y[`WORD*TURNED +: `WORD];
        end
    endgenerate
    `include "reversed.vh"
    wire unused = &{1'b0, tag_out[BITS +: 3], second[BITS-1].a_out, second[BITS-1].prime_out, row_number};
endmodule
`default_nettype wire
