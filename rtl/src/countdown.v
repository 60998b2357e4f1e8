`default_nettype none
// Counts down from FROM to 0, beginning in the cycle after `start`.
module countdown #(
    parameter FROM = 1
) (
    input  wire                      clk,
    input  wire                      rst,
    input  wire                      start,
    output reg  [$clog2(FROM+1)-1:0] left
);
    always @(posedge clk)
        if (rst) left <= 0;
        else if (start) left <= FROM[$clog2(FROM+1)-1:0];
        else if (left != 0) left <= left - 1;
endmodule
`default_nettype wire
