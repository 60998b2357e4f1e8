// Distribution of a launch's blocks over the threads of the operating system.
#pragma once

#include <string_view>

#include "block.hpp"

namespace emulation {

// Runs a launch to its end or its first failure.
Failure run_grid(const Launch& launch);

// Returns the kernel of this name; null if there is none.
const Kernel* find_kernel(std::string_view name);
// Returns all kernels, sorted by name.
const std::vector<const Kernel*>& all_kernels();

}  // namespace emulation
