`default_nettype none
`timescale 1ns / 1ps
`include "word.vh"
// Tests `modmul` and the multipliers that it is compared with.
module baselines;
    `include "modulus.vh"
    reg clk = 0;
    always #1 clk = !clk;

    reg [1:0] prime = 0;
    reg [`WORD-1:0] a = 0, b = 0;
    wire [`WORD-1:0] q = modulus(prime);
    // 1/q mod 2^28 is the sum of (1 - q)^i; from the third power on, the terms are divisible by
    // 2^28.
    wire [`WORD-1:0] inverse = 1 + (1 - q) + (1 - q) * (1 - q);
    wire [`WORD-1:0] special, f1, montgomery;
    wire [1:0] unused_1, unused_4;
    modmul one (.clk(clk), .prime(prime), .a(a), .b(b), .prime_after_1(unused_1), .prime_after_4(unused_4), .r(special));
    f1_modmul two (.clk(clk), .q(q), .a(a), .b(b), .r(f1));
    montgomery_modmul three (.clk(clk), .q(q), .inverse(inverse), .a(a), .b(b), .r(montgomery));

    integer i, seed = 1;
    reg [2*`WORD-1:0] product, by_special, by_montgomery;
    reg [2*`WORD+1:0] shifted;
    initial begin
        for (i = 0; i < 8000; i = i + 1) begin
            prime = i;
            #0 a = i < 400 ? (i & 4 ? q - 1 : i >> 3) : $unsigned($random(seed)) % q;
            b = i < 800 ? (i & 8 ? q - 1 : i >> 4) : $unsigned($random(seed)) % q;
            repeat (5) @(negedge clk);
            product = {`WORD'd0, a} * b % q;
            shifted = {special, 30'd0} % q;
            by_special = shifted;
            shifted = {montgomery, 28'd0} % q;
            by_montgomery = shifted;
            if (by_special !== product || f1 !== special || by_montgomery !== product || special >= q || montgomery >= q)
            begin
                $display("FAILED: %0d times %0d mod %0d", a, b, q);
                $finish_and_return(1);
            end
        end
        $display("%0d products by three multipliers are right", i);
        $finish;
    end
endmodule
`default_nettype wire
