// The blocks of a launch over the threads of the operating system.
#pragma once

#include <string_view>

#include "block.hpp"

namespace emulation {

// Runs a launch to its end or its first failure.
Failure run_grid(const Launch& launch);

// The kernel of this name, null without.
const Kernel* find_kernel(std::string_view name);
// All kernels, by name.
const std::vector<const Kernel*>& all_kernels();

}  // namespace emulation
