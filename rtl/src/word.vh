// Number of bits of a residue: every prime lies between 2^27 and 2^28.
`ifndef WORD
`define WORD 28
`endif
