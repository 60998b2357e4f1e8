`default_nettype none
`include "word.vh"
// IVE's versatile transform unit (sysNTTU, section IV-C). It transforms polynomials of N = LANES^2
// coefficients, LANES per cycle. On the same multipliers, it is an output-stationary array of LANES
// / 2 rows and 2 log2(LANES) + 4 columns.
//
// Transforms. Coefficient j + LANES i of a polynomial is in lane i of vector j. Values have the
// same order: the value at psi^(2 f + 1) has number f. Vectors enter in order, one per cycle and
// without a gap, from the cycle in which `transform_start` meets `transform_ready`. They leave in
// bit-reversed order of their numbers; `transformed_index` is a leaving vector's number. (Wires
// permute the lanes, and the address that vectors are written to permutes the vectors: this is the
// bit reversal.) Forward turns coefficients into values; inverse turns values into coefficients and
// divides by N.
//
// Array. Each cycle with `array_valid` and `array_ready` takes a column of the left matrix (the
// database's, in Montgomery form) and a row of the right matrix (the queries'). `array_last` marks
// the last operands of a product. The rows of the product leave from the last to the first, one per
// cycle. Pauses between operands are allowed anywhere.
//
// `array_wanted` selects the next mode. The unit switches once all operations in progress have
// ended.
module sysnttu #(
    parameter LANES   = 64,
    // Derived from LANES:
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
    localparam BUTTERFLY = 5;  // latency of the cells, in cycles
    localparam TWIST     = 4;
    // Cycles from a vector to the last register that it changes: stages, twist and transpose.
    localparam LATENCY   = 2 * BITS * BUTTERFLY + TWIST + LANES - 1;
    // Cycles from a product's last operands to the drain of its first column, whose last row is
    // then complete.
    localparam COMPLETE  = ROWS + BUTTERFLY - 1;

    // Cycles from a product's last operands to its last result.
    localparam DRAINED   = COMPLETE + COLUMNS - 1 + ROWS;

    // The unit has two modes: transforms and array. It changes its mode only when nothing is in
    // flight. After a reset, the array also waits until the transforms' registers are zero, because
    // it starts with them.
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

    // Tag of a vector: valid bit, direction, prime, and the vector's number in its polynomial.
    localparam TAG = BITS + 4;
    reg [2:0] kind;
    wire [2:0] kind_now = start ? {transform_inverse, transform_prime} : kind;
    always @(posedge clk) kind <= kind_now;
    wire [TAG-1:0] tag = taking ? {1'b1, kind_now, count} : 0;

    // Rows enter the array skewed, each a cycle after the row before it, and so do columns. A
    // product's prime is held until the next product.
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
            // Columns leave the array aligned.
            delay #(.WIDTH(`WORD), .DEPTH(COLUMNS - 1 - c)) back (
                .clk(clk), .rst(rst), .in(bottom[`WORD*c +: `WORD]), .out(product[`WORD*c +: `WORD])
            );
        end
    endgenerate

    // A column drains when its last row is complete, a cycle after the column before it.
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

    // Columns of the array, from left to right: stages of the first transform, twists, stages of
    // the second transform. The transpose lies between the twists and the second stages; rows of
    // the array bypass it.
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
