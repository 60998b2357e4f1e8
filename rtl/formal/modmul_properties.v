`default_nettype none
`include "word.vh"
// Specification of `modmul` for all primes and all words a and b, as assertions for a solver.
// docs/rtl.md derives from them that 2^30 r = a b mod q and r < q.
//
// The specification's product is the operator `*`. rtl/formal/modmul.ys merges it with the product
// inside `modmul`, which has the same operands, into one cell. It then puts an arbitrary word in
// the place of that cell, so the rest is proven for every c of 56 bits.
module modmul_properties #(
    parameter PRIME = `PRIME  // of the operands; operands before and after them may have any prime
) (
    input wire             clk,
    input wire [1:0]       prime,
    input wire [`WORD-1:0] a,
    input wire [`WORD-1:0] b
);
    wire [1:0]       prime_after_1, prime_after_4;
    wire [`WORD-1:0] r;
    modmul dut (
        .clk(clk), .prime(prime), .a(a), .b(b),
        .prime_after_1(prime_after_1), .prime_after_4(prime_after_4), .r(r)
    );
    // Register between the two steps; the script connects it.
    (* keep *) wire signed [41:0] half;

    // Product, prime and that register, delayed in step with `modmul`.
    reg [2*`WORD-1:0] c1, c2, c3;
    reg signed [41:0] half_before;
    reg [1:0] prime1, prime2, prime3, prime4;
    reg [2:0] age = 0;  // registers start arbitrary; after four cycles all values come from the ports
    always @(posedge clk) begin
        c1 <= a * b;
        {c3, c2} <= {c2, c1};
        half_before <= half;
        {prime4, prime3, prime2, prime1} <= {prime3, prime2, prime1, prime};
        if (age != 4) age <= age + 1;
    end
    always @* if (age == 4) assert (prime_after_1 == prime1 && prime_after_4 == prime4);
    // The assertions are not vacuous: the solver must reach this state.
    always @* cover (age == 4 && prime3 == PRIME && prime4 == PRIME && r != 0);

    localparam K = PRIME == 0 ? 15 : PRIME == 1 ? 17 : PRIME == 2 ? 21 : 22;
    localparam signed [63:0] Q = (64'd1 << 27) + (64'd1 << K) + 64'd1;
    // m q for both steps, as the sum of m times each power of two in q. All values fit in 64 bits
    // with their signs.
    wire signed [63:0] m1 = c3[14:0];
    wire signed [63:0] m2 = half_before[14:0];
    wire signed [63:0] m1_q = (m1 << 27) + (m1 << K) + m1;
    wire signed [63:0] m2_q = (m2 << 27) + (m2 << K) + m2;
    wire signed [63:0] c = c3;
    wire signed [63:0] wide_half   = half;
    wire signed [63:0] wide_before = half_before;
    wire signed [63:0] wide_r      = r;
    always @* if (age == 4 && prime3 == PRIME) begin
        // First step: 2^15 half = c - m1 q, and half lies between -q and 2^41.
        assert ((wide_half << 15) == c - m1_q);
        assert (wide_half >= -Q && wide_half < (64'sd1 << 41));
    end
    always @* if (age == 4 && prime4 == PRIME && wide_before >= -Q && wide_before < (64'sd1 << 41)) begin
        // Second step and correction: 2^15 r = half - m2 q, or 2^15 r = half - m2 q + 2^15 q; and r
        // is a residue.
        assert ((wide_r << 15) == wide_before - m2_q || (wide_r << 15) == wide_before - m2_q + (Q << 15));
        assert (wide_r < Q);
    end
endmodule
`default_nettype wire
