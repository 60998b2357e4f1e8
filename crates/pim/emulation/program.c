// Unmodified device program, compiled for the processor, and its variables by name.
#define main dpxor_main
#include "../dpu/dpxor.c"
#undef main

#include "runtime.h"

static void *arguments(void) { return &dpxor_arguments; }

static const struct spirea_symbol symbols[] = {{"dpxor_arguments", arguments, sizeof(struct dpxor_arguments)}};

// A pointer has 4 bytes on a DPU.
const struct spirea_program spirea_dpxor = {"dpxor", dpxor_main, symbols, 1,
                                            sizeof(struct dpxor_arguments) + 4 * MOST_TASKLETS + 8};
