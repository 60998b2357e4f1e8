// Returns the lowest `bits` bits of a number in reverse order. Included inside the modules that
// need it.
function integer reversed(input integer value, input integer bits);
    integer place;
    begin
        reversed = 0;
        for (place = 0; place < bits; place = place + 1)
            reversed = 2 * reversed + ((value >> place) & 1);
    end
endfunction
