`default_nettype none
`timescale 1ns / 1ps
`include "word.vh"
// Runs a program of `sysnttu_vectors` on the unit under an event simulator, and compares every
// word: smoke +program=FILE. sysnttu.cpp does the same in another language, so two simulators must
// agree that differ in their models of time and of undefined values.
module smoke;
    `include "modulus.vh"
    `include "reversed.vh"
    parameter LANES = 8;
    localparam BITS = $clog2(LANES), DEGREE = LANES * LANES, ROWS = LANES / 2, COLUMNS = 2 * BITS + 4;

    reg clk = 0, rst = 1;
    reg array_wanted = 0, transform_start = 0, transform_inverse = 0, array_valid = 0, array_last = 0;
    reg [1:0] transform_prime = 0, array_prime = 0;
    reg [LANES*`WORD-1:0] coefficients = 0;
    reg [ROWS*`WORD-1:0] left = 0;
    reg [COLUMNS*`WORD-1:0] right = 0;
    wire transform_ready, transformed_valid, array_ready, product_valid;
    wire [BITS-1:0] transformed_index;
    wire [$clog2(ROWS)-1:0] product_row;
    wire [LANES*`WORD-1:0] transformed;
    wire [COLUMNS*`WORD-1:0] product;
    sysnttu #(.LANES(LANES)) unit (
        .clk(clk), .rst(rst), .array_wanted(array_wanted),
        .transform_ready(transform_ready), .transform_start(transform_start), .transform_inverse(transform_inverse),
        .transform_prime(transform_prime), .coefficients(coefficients), .transformed_valid(transformed_valid),
        .transformed_index(transformed_index), .transformed(transformed),
        .array_ready(array_ready), .array_valid(array_valid), .array_last(array_last), .array_prime(array_prime),
        .left(left), .right(right), .product_valid(product_valid), .product_row(product_row), .product(product)
    );
    always #1 clk = !clk;

    // Expected words, in the order of their operations.
    localparam PLACES = 1 << 20;
    reg [`WORD-1:0] vectors [0:PLACES-1], rows [0:PLACES-1];
    integer vectors_asked = 0, vectors_seen = 0, rows_asked = 0, rows_seen = 0;
    integer i;
    always @(negedge clk) begin
        if (transformed_valid === 1) begin
            for (i = 0; i < LANES; i = i + 1)
                if (transformed[`WORD*i +: `WORD] !== vectors[vectors_seen / LANES * DEGREE + transformed_index + LANES * i])
                begin
                    $display("FAILED: vector %0d, lane %0d", vectors_seen, i);
                    $finish_and_return(1);
                end
            vectors_seen = vectors_seen + 1;
        end else if (transformed_valid !== 0 && !rst) begin
            $display("FAILED: whether a vector is valid is undefined");
            $finish_and_return(1);
        end
        if (product_valid === 1) begin
            for (i = 0; i < COLUMNS; i = i + 1)
                if (product[`WORD*i +: `WORD] !== rows[(rows_seen / ROWS * ROWS + product_row) * COLUMNS + i]) begin
                    $display("FAILED: row %0d, column %0d", rows_seen, i);
                    $finish_and_return(1);
                end
            rows_seen = rows_seen + 1;
        end else if (product_valid !== 0 && !rst) begin
            $display("FAILED: whether a row is valid is undefined");
            $finish_and_return(1);
        end
    end

    integer file, got, prime, inverse, depth, pause, cycles, operations, n, t;
    reg [8*16-1:0] kind;
    reg [8*512-1:0] name;
    reg [`WORD-1:0] word;
    reg [`WORD-1:0] lefts [0:1023*ROWS], rights [0:1023*COLUMNS], inputs [0:DEGREE-1];
    reg [2*`WORD+1:0] wide;

    // Reads the next word of the program.
    task next;
        got = $fscanf(file, "%h", word);
    endtask

    task transform;
        begin
            got = $fscanf(file, "%d %d", prime, inverse);
            for (n = 0; n < DEGREE; n = n + 1) begin
                next;
                inputs[inverse ? reversed(n, 2 * BITS) : n] = word;
            end
            for (n = 0; n < DEGREE; n = n + 1) begin
                next;
                vectors[vectors_asked * LANES + (inverse ? n : reversed(n, 2 * BITS))] = word;
            end
            vectors_asked = vectors_asked + LANES;
            array_wanted = 0;
            #0.1 while (!transform_ready) @(negedge clk) #0.1;
            transform_start = 1;
            transform_prime = prime;
            transform_inverse = inverse;
            for (t = 0; t < LANES; t = t + 1) begin
                for (n = 0; n < LANES; n = n + 1) coefficients[`WORD*n +: `WORD] = inputs[t + LANES * n];
                @(negedge clk) transform_start = 0;
            end
        end
    endtask

    task multiply;
        begin
            got = $fscanf(file, "%d %h %h", prime, depth, pause);
            for (n = 0; n < ROWS * depth; n = n + 1) begin
                next;
                lefts[n] = word;
            end
            for (n = 0; n < depth * COLUMNS; n = n + 1) begin
                next;
                rights[n] = word;
            end
            for (n = 0; n < ROWS * COLUMNS; n = n + 1) begin
                next;
                rows[rows_asked * COLUMNS + n] = word;
            end
            rows_asked = rows_asked + ROWS;
            array_wanted = 1;
            #0.1 while (!array_ready) @(negedge clk) #0.1;
            for (t = 0; t < depth; t = t + 1) begin
                for (n = 0; n < ROWS; n = n + 1) begin
                    // Left words are in Montgomery form, as in a prepared database.
                    wide = {lefts[n * depth + t], 30'd0} % modulus(prime);
                    left[`WORD*n +: `WORD] = wide[`WORD-1:0];
                end
                for (n = 0; n < COLUMNS; n = n + 1) right[`WORD*n +: `WORD] = rights[t * COLUMNS + n];
                array_valid = 1;
                array_prime = prime;
                array_last = t == depth - 1;
                // Without operands, the unit must ignore the prime.
                @(negedge clk) array_valid = 0;
                array_prime = prime + 1;
                if (pause > 0 && t < depth - 1 && (t + 1) % pause == 0) @(negedge clk);
            end
        end
    endtask

    initial begin
        if (!$value$plusargs("program=%s", name)) begin
            $display("FAILED: usage: smoke +program=FILE");
            $finish_and_return(1);
        end
        file = $fopen(name, "r");
        @(negedge clk);
        @(negedge clk) rst = 0;
        operations = 0;
        while ($fscanf(file, "%s", kind) == 1) begin
            if (kind == "transform") transform;
            else if (kind == "product") multiply;
            else begin
                got = $fscanf(file, "%h", cycles);
                repeat (cycles) @(negedge clk);
            end
            operations = operations + 1;
        end
        repeat (1000) @(negedge clk);
        if (operations == 0 || vectors_seen != vectors_asked || rows_seen != rows_asked) begin
            $display("FAILED: %0d of %0d vectors and %0d of %0d rows", vectors_seen, vectors_asked, rows_seen, rows_asked);
            $finish_and_return(1);
        end
        $display("%0d vectors and %0d rows are right", vectors_seen, rows_seen);
        $finish;
    end
endmodule
`default_nettype wire
