// Modules, functions and launches.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "driver.hpp"

namespace driver {

namespace {

constexpr int DEFAULT_SHARED = 48 << 10;

// Values of CUfunction_attribute.
enum Attribute { MAX_THREADS = 0, STATIC_SHARED = 1, LOCAL_BYTES = 3, REGISTERS = 4, PTX = 5, BINARY = 6, DYNAMIC_SHARED = 8, CARVEOUT = 9 };

Function& function_of(const Function* handle) {
    const auto found = state().functions.find(handle);
    require(found != state().functions.end(), INVALID_HANDLE, "this is no function");
    return *found->second;
}

uint64_t blocks_on_processor(uint64_t threads, uint64_t shared_bytes) {
    const Limits limits = driver::limits(state().configuration.compute);
    const uint64_t by_threads = limits.threads / ((threads + 31) / 32 * 32);
    const uint64_t by_shared = limits.shared / std::max<uint64_t>(shared_bytes + limits.shared_reserved, 1);
    return std::min({by_threads, by_shared, uint64_t(limits.blocks)});
}

void check_shape(const Function& function, const emulation::Launch& launch) {
    const auto& [grid, shape] = std::pair(launch.grid, launch.shape);
    require(grid.count() > 0 && shape.count() > 0, INVALID_VALUE, "a launch of no blocks or threads");
    require(grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 && grid.count() < uint64_t(1) << 32,
            INVALID_VALUE, "the grid is too large");
    require(shape.x <= 1024 && shape.y <= 1024 && shape.z <= 64, INVALID_VALUE, "the block is too large");
    require(shape.count() <= function.kernel->max_threads, INVALID_VALUE, "more threads than the kernel's maximum");
    require(launch.shared_bytes <= size_t(std::max(function.dynamic_limit, DEFAULT_SHARED)), INVALID_VALUE,
            "more shared memory than the function's limit");
    if (launch.cooperative) {
        const uint64_t most = blocks_on_processor(shape.count(), launch.shared_bytes) * uint64_t(state().configuration.processors);
        require(grid.count() <= most, COOPERATIVE_LAUNCH_TOO_LARGE, "more blocks than run at once");
    }
}

// Checks that every pointer argument is null or points into memory that the kernel can reach.
void check_pointers(const emulation::Kernel& kernel, const std::vector<unsigned char>& arguments,
                    const std::vector<size_t>& offsets, const Context& context, bool at_call) {
    for (size_t i = 0; i < offsets.size(); i++) {
        if (!kernel.parameters[i].is_pointer) continue;
        DevicePointer pointer;
        std::memcpy(&pointer, arguments.data() + offsets[i], sizeof pointer);
        if (pointer == 0) continue;
        const Allocation* allocation = find_allocation(pointer);
        const char* wrong = nullptr;
        if (!allocation) {
            wrong = "points to no memory of a device";
        } else if (!can_access(context, *allocation)) {
            wrong = "points to memory of a device without peer access";
        } else if (at_call ? allocation->freeing : !allocation->live) {
            wrong = at_call ? "points to freed memory" : "points to memory before its allocation in stream order";
        }
        if (wrong) {
            refuse(ILLEGAL_ADDRESS, std::string("kernel ") + kernel.name + ": argument " + std::to_string(i) + " " + wrong);
        }
    }
}

// Logs every kernel that has run, even if it failed, with the order of its threads, to the file in
// SPIREA_EMULATION_RAN, if this variable is set. Each pair takes one line; several processes append
// to the same file.
void note_run(const emulation::Launch& launch) {
    static std::FILE* const file = [] {
        const char* path = std::getenv("SPIREA_EMULATION_RAN");
        return path ? std::fopen(path, "a") : nullptr;
    }();
    static std::set<std::pair<const emulation::Kernel*, emulation::ThreadOrder>> noted;
    if (!file || !noted.emplace(launch.kernel, launch.order).second) return;
    constexpr const char* ORDERS[] = {"forward", "reversed", "shuffled"};
    std::fprintf(file, "%s %s\n", launch.kernel->name, ORDERS[int(launch.order)]);
    std::fflush(file);
}

void execute(emulation::Launch launch, Context& context) {
    auto& driver = state();
    if (driver.launches_left == 0) refuse(LAUNCH_FAILED, "the device was lost, as configured");
    if (driver.launches_left > 0) driver.launches_left--;
    launch.order = driver.configuration.thread_order;
    launch.seed = driver.configuration.seed * 0x9e3779b97f4a7c15u + driver.launches++;
    driver.counters.launches[launch.kernel->name]++;
    const emulation::Failure failure = emulation::run_grid(launch);
    if (failure.fault != emulation::NO_FAULT) lose(context, Result(failure.fault), failure.message);
    if (const Allocation* overrun = find_overrun()) {
        lose(context, ILLEGAL_ADDRESS, std::string("kernel ") + launch.kernel->name + " wrote behind the end of an allocation of " +
                                           std::to_string(overrun->bytes) + " bytes");
    }
    note_run(launch);
}

// Queues a launch. Copies its arguments now, as the driver does.
void launch_kernel(const Function& function, Stream& stream, emulation::Launch launch, void** parameters) {
    require(function.context == stream.context, INVALID_HANDLE, "the function and the stream are of different contexts");
    check_shape(function, launch);
    const emulation::Kernel& kernel = *function.kernel;
    require(parameters || kernel.parameters.empty(), INVALID_VALUE, "a launch without arguments");
    std::vector<size_t> offsets;
    std::vector<unsigned char> arguments;
    for (size_t i = 0; i < kernel.parameters.size(); i++) {
        constexpr size_t ALIGNMENT = 16;
        const uint32_t bytes = kernel.parameters[i].bytes;
        offsets.push_back(arguments.size());
        arguments.resize(arguments.size() + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        std::memcpy(arguments.data() + offsets.back(), parameters[i], bytes);
    }
    try {
        check_pointers(kernel, arguments, offsets, *stream.context, true);
    } catch (const Error& error) {
        lose(*stream.context, error.code, state().last_error);
        throw;
    }
    enqueue(stream, {.work = [=, &kernel](Context& context) {
                check_pointers(kernel, arguments, offsets, context, false);
                std::vector<void*> pointers;
                for (size_t offset : offsets) pointers.push_back(const_cast<unsigned char*>(arguments.data()) + offset);
                emulation::Launch now = launch;
                now.arguments = pointers.data();
                execute(now, context);
            }});
}

int launch(const Function* handle, emulation::Dim3 grid, emulation::Dim3 shape, unsigned shared_bytes, Stream* stream,
           void** parameters, bool cooperative) {
    return in_context([&](Context&) {
        Function& function = function_of(handle);
        emulation::Launch launch;
        launch.kernel = function.kernel;
        launch.grid = grid;
        launch.shape = shape;
        launch.shared_bytes = shared_bytes;
        launch.cooperative = cooperative;
        launch_kernel(function, stream_of(stream), launch, parameters);
    });
}

}  // namespace

}  // namespace driver

using namespace driver;

// Accepts any image: modules always contain the built-in kernels. A driver refuses PTX of a newer CUDA version; PTX
// of this project is of CUDA 12.9 and begins with a comment.
EXPORTED int cuModuleLoadData(Module** handle, const void* image) {
    return in_context([&](Context& context) {
        require(image != nullptr, INVALID_VALUE, "no image");
        constexpr int PTX_CUDA_VERSION = 12090;
        const bool is_ptx = std::strncmp(static_cast<const char*>(image), "//", 2) == 0;
        require(!is_ptx || state().configuration.version >= PTX_CUDA_VERSION, UNSUPPORTED_PTX_VERSION, "PTX of a newer version");
        auto module = std::make_unique<Module>();
        module->context = &context;
        *handle = module.get();
        state().modules[module.get()] = std::move(module);
    });
}
EXPORTED int cuModuleLoadDataEx(Module** handle, const void* image, unsigned, void*, void**) {
    return cuModuleLoadData(handle, image);
}
EXPORTED int cuModuleLoad(Module** handle, const char* path) { return cuModuleLoadData(handle, path); }

EXPORTED int cuModuleUnload(Module* handle) {
    return in_context([&](Context& context) {
        require(state().modules.contains(handle), INVALID_HANDLE, "this is no module");
        synchronize(context);
        std::erase_if(state().functions, [&](const auto& function) { return function.second->module == handle; });
        state().modules.erase(handle);
    });
}

EXPORTED int cuModuleGetFunction(const Function** handle, Module* module, const char* name) {
    return in_context([&](Context& context) {
        require(state().modules.contains(module), INVALID_HANDLE, "this is no module");
        const emulation::Kernel* kernel = emulation::find_kernel(name);
        if (!kernel) refuse(NOT_FOUND, std::string("there is no kernel ") + name);
        auto& function = module->functions[name];
        if (!function) {
            function = std::make_unique<Function>(Function{kernel, &context, module});
            state().functions[function.get()] = function.get();
        }
        *handle = function.get();
    });
}

EXPORTED int cuModuleGetGlobal_v2(DevicePointer*, size_t*, Module*, const char*) {
    return in_context([](Context&) { refuse(NOT_FOUND, "the emulation has no global variables"); });
}

EXPORTED int cuFuncGetAttribute(int* value, int attribute, const Function* handle) {
    return in_context([&](Context&) {
        const Function& function = function_of(handle);
        switch (attribute) {
            case MAX_THREADS: *value = int(function.kernel->max_threads); break;
            case REGISTERS: *value = int(65536 / (function.kernel->max_threads * std::max(1u, function.kernel->min_blocks))); break;
            case PTX: case BINARY: *value = 90; break;
            case DYNAMIC_SHARED: *value = std::max(function.dynamic_limit, DEFAULT_SHARED); break;
            case CARVEOUT: *value = function.carveout; break;
            default: *value = 0;
        }
    });
}

EXPORTED int cuFuncSetAttribute(const Function* handle, int attribute, int value) {
    return in_context([&](Context&) {
        Function& function = function_of(handle);
        if (attribute == DYNAMIC_SHARED) {
            const int most = limits(state().configuration.compute).shared_of_block;
            require(value >= 0 && value <= most, INVALID_VALUE, "more shared memory than a block can have");
            function.dynamic_limit = value;
        } else {
            require(attribute == CARVEOUT && value >= -1 && value <= 100, INVALID_VALUE, "this attribute cannot be set");
            function.carveout = value;
        }
    });
}

EXPORTED int cuFuncSetCacheConfig(const Function* handle, int) {
    return in_context([&](Context&) { function_of(handle); });
}

EXPORTED int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const Function* handle, int threads, size_t shared) {
    return in_context([&](Context&) {
        const Function& function = function_of(handle);
        require(threads > 0, INVALID_VALUE, "a block of no threads");
        *blocks = unsigned(threads) > function.kernel->max_threads ? 0 : int(blocks_on_processor(uint64_t(threads), shared));
    });
}
EXPORTED int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const Function* handle, int threads,
                                                                  size_t shared, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads, shared);
}

EXPORTED int cuLaunchKernel(const Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x,
                            unsigned y, unsigned z, unsigned shared_bytes, Stream* stream, void** parameters, void**) {
    return launch(function, {grid_x, grid_y, grid_z}, {x, y, z}, shared_bytes, stream, parameters, false);
}

EXPORTED int cuLaunchCooperativeKernel(const Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned x, unsigned y, unsigned z, unsigned shared_bytes, Stream* stream,
                                       void** parameters) {
    return launch(function, {grid_x, grid_y, grid_z}, {x, y, z}, shared_bytes, stream, parameters, true);
}
