// Returns a prime by its number: q = 2^27 + 2^k + 1 with k = 15, 17, 21, 22. Included inside the
// modules that need it.
function [`WORD-1:0] modulus(input [1:0] number);
    case (number)
        2'd0: modulus = (1 << 27) + (1 << 15) + 1;
        2'd1: modulus = (1 << 27) + (1 << 17) + 1;
        2'd2: modulus = (1 << 27) + (1 << 21) + 1;
        2'd3: modulus = (1 << 27) + (1 << 22) + 1;
    endcase
endfunction
