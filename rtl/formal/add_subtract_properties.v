`default_nettype none
`include "word.vh"
// Specification of `modadd` and `modsub` for all residues of a prime, as assertions for a solver.
module add_subtract_properties #(
    parameter [1:0] PRIME = `PRIME
) (
    input wire [`WORD-1:0] a,
    input wire [`WORD-1:0] b
);
    wire [`WORD-1:0] sum, difference;
    modadd add (.prime(PRIME), .a(a), .b(b), .r(sum));
    modsub subtract (.prime(PRIME), .a(a), .b(b), .r(difference));

    // Integers: 32 bits hold all of these values with their signs.
    localparam signed [31:0] Q =
        (32'd1 << 27) + (32'd1 << (PRIME == 0 ? 15 : PRIME == 1 ? 17 : PRIME == 2 ? 21 : 22)) + 32'd1;
    wire signed [31:0] x = {4'd0, a}, y = {4'd0, b};
    wire signed [31:0] s = {4'd0, sum}, d = {4'd0, difference};
    always @* begin
        assume (x < Q && y < Q);
        assert (s < Q && (s == x + y || s == x + y - Q));
        assert (d < Q && (d == x - y || d == x - y + Q));
        cover (x + y >= Q && x < y);
    end
endmodule
`default_nettype wire
