// Twiddles of a prime, as functions of parameters. They are evaluated when the design is
// elaborated, so the hardware contains only their values. Included inside the modules that store
// them.
//
// A transform has degree N = LANES^2. Its root psi, of order 2N, is the same power of the least
// non-residue that `Modulus::root_of_unity` of crates/math takes, so that values agree word by
// word.
`include "modulus.vh"

// Arguments are integers, of which only a few bits are used.
// verilator lint_off UNUSEDSIGNAL

// Returns the product of two residues.
function [`WORD-1:0] times(input [`WORD-1:0] u, input [`WORD-1:0] v, input integer number);
    reg [2*`WORD-1:0] remainder;
    begin
        remainder = {`WORD'd0, u} * {`WORD'd0, v} % {`WORD'd0, modulus(number[1:0])};
        times = remainder[`WORD-1:0];
    end
endfunction

// Returns psi^exponent times `scale`, for 0 <= exponent < 2N, in Montgomery form: multiplied by
// 2^30, which a product of `modmul` removes again.
function [`WORD-1:0] twiddle(
    input integer exponent, input [`WORD-1:0] scale, input integer number, input integer degree
);
    reg [`WORD-1:0] non_residue;
    integer power, place;
    begin
        non_residue = number == 3 ? 5 : 3;
        power = exponent * (({4'd0, modulus(number[1:0])} - 1) / (2 * degree));
        twiddle = times(times(scale, 1 << 27, number), 1 << 3, number);
        for (place = 0; power >> place != 0; place = place + 1) begin
            if (power[place]) twiddle = times(twiddle, non_residue, number);
            non_residue = times(non_residue, non_residue, number);
        end
    end
endfunction

// Returns 1/N mod q as q - (q - 1)/N, because N (q - 1)/N is -1 mod q.
function [`WORD-1:0] inverse_degree(input integer number, input integer degree);
    inverse_degree = modulus(number[1:0]) - (modulus(number[1:0]) - 1) / degree[`WORD-1:0];
endfunction
// verilator lint_on UNUSEDSIGNAL
