// The twiddles of a prime, as functions of parameters: hardware has their values alone, which are computed when the
// design is elaborated. Included inside the modules that store them.
//
// A transform has degree N = LANES^2. Its root psi, of order 2N, is the power of the least non-residue, the one that
// `Modulus::root_of_unity` of crates/math takes, so that values agree place by place.
`include "modulus.vh"

// Arguments are integers, of which a few bits are taken.
// verilator lint_off UNUSEDSIGNAL

// The product of two residues.
function [`WORD-1:0] times(input [`WORD-1:0] u, input [`WORD-1:0] v, input integer number);
    reg [2*`WORD-1:0] remainder;
    begin
        remainder = {`WORD'd0, u} * {`WORD'd0, v} % {`WORD'd0, modulus(number[1:0])};
        times = remainder[`WORD-1:0];
    end
endfunction

// psi^exponent for 0 <= exponent < 2N, times `scale`, in Montgomery's form: 2^30 times the number, which a product of
// `modmul` loses again.
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

// 1/N: N (q - 1)/N is -1.
function [`WORD-1:0] inverse_degree(input integer number, input integer degree);
    inverse_degree = modulus(number[1:0]) - (modulus(number[1:0]) - 1) / degree[`WORD-1:0];
endfunction
// verilator lint_on UNUSEDSIGNAL
