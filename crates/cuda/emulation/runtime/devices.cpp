// Devices, contexts and errors.
#include <cstdio>
#include <cstring>

#include "driver.hpp"

namespace driver {

namespace {

struct Attribute {
    int id, value;
};
constexpr Attribute ATTRIBUTES[] = {
    {1, 1024},         // MAX_THREADS_PER_BLOCK
    {2, 1024},         // MAX_BLOCK_DIM_X
    {3, 1024},         // MAX_BLOCK_DIM_Y
    {4, 64},           // MAX_BLOCK_DIM_Z
    {5, 0x7fffffff},   // MAX_GRID_DIM_X
    {6, 65535},        // MAX_GRID_DIM_Y
    {7, 65535},        // MAX_GRID_DIM_Z
    {8, 48 << 10},     // MAX_SHARED_MEMORY_PER_BLOCK
    {9, 64 << 10},     // TOTAL_CONSTANT_MEMORY
    {10, 32},          // WARP_SIZE
    {12, 65536},       // MAX_REGISTERS_PER_BLOCK
    {13, 1980000},     // CLOCK_RATE, kHz
    {15, 1},           // GPU_OVERLAP
    {19, 1},           // CAN_MAP_HOST_MEMORY
    {31, 1},           // CONCURRENT_KERNELS
    {32, 1},           // ECC_ENABLED
    {36, 3201000},     // MEMORY_CLOCK_RATE, kHz
    {37, 6144},        // GLOBAL_MEMORY_BUS_WIDTH
    {38, 60 << 20},    // L2_CACHE_SIZE
    {40, 3},           // ASYNC_ENGINE_COUNT
    {41, 1},           // UNIFIED_ADDRESSING
    {78, 1},           // STREAM_PRIORITIES_SUPPORTED
    {82, 65536},       // MAX_REGISTERS_PER_MULTIPROCESSOR
    {87, 2},           // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
    {95, 1},           // COOPERATIVE_LAUNCH
    {99, 1},           // HOST_REGISTER_SUPPORTED
    {108, 32 << 20},   // MAX_PERSISTING_L2_CACHE_SIZE
    {109, 128 << 20},  // MAX_ACCESS_POLICY_WINDOW_SIZE
    {115, 1},          // MEMORY_POOLS_SUPPORTED
};
constexpr int MULTIPROCESSOR_COUNT = 16, PCI_BUS_ID = 33, MAX_THREADS_PER_MULTIPROCESSOR = 39, COMPUTE_MAJOR = 75,
              COMPUTE_MINOR = 76, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
              MAX_BLOCKS_PER_MULTIPROCESSOR = 106, RESERVED_SHARED_MEMORY_PER_BLOCK = 111, LAST_ATTRIBUTE = 160;

thread_local Context* bound = nullptr;

void check_device(int device) {
    require(device >= 0 && device < state().configuration.devices, INVALID_DEVICE, "there is no such device");
}

struct ErrorText {
    int code;
    const char *name, *text;
};
constexpr ErrorText ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory is already registered"},
    {HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory is not registered"},
    {emulation::MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the stream capture was invalidated"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency on uncaptured work in another stream"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event of a capture"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* error_text(int code) {
    for (const ErrorText& error : ERRORS) {
        if (error.code == code) return &error;
    }
    return nullptr;
}

}  // namespace

Driver& state() {
    static auto* driver = new Driver;
    return *driver;
}

void refuse(Result code, const std::string& message) {
    state().last_error = message;
    throw Error{code};
}

Context* bound_context() { return bound; }
void bind_context(Context* context) { bound = context; }

Context& context_of(int device) {
    check_device(device);
    auto& contexts = state().contexts;
    while (contexts.size() <= size_t(device)) {
        contexts.push_back(std::make_unique<Context>());
        contexts.back()->device = int(contexts.size()) - 1;
    }
    return *contexts[size_t(device)];
}

void check(const Context& context) {
    if (context.lost != SUCCESS) throw Error{context.lost};
    require(context.retained > 0, INVALID_CONTEXT, "the primary context was released");
}

Context& current_context() {
    require(bound != nullptr, INVALID_CONTEXT, "no context is current on this thread");
    check(*bound);
    return *bound;
}

// Only the first loss is recorded: it is the cause, and later ones are its consequences.
void lose(Context& context, Result code, const std::string& message) {
    if (context.lost != SUCCESS) return;
    context.lost = code;
    state().last_error = message;
}

}  // namespace driver

using namespace driver;

EXPORTED int cuInit(unsigned) {
    return call([] {
        require(state().configuration.devices > 0, NO_DEVICE, "the emulation is configured without devices");
        state().initialised = true;
    });
}

EXPORTED int cuDriverGetVersion(int* version) {
    return call([&] { *version = state().configuration.version; });
}

EXPORTED int cuDeviceGetCount(int* count) {
    return initialised([&] { *count = state().configuration.devices; });
}

EXPORTED int cuDeviceGet(int* device, int ordinal) {
    return initialised([&] {
        check_device(ordinal);
        *device = ordinal;
    });
}

EXPORTED int cuDeviceGetName(char* name, int length, int device) {
    return initialised([&] {
        check_device(device);
        require(length > 0, INVALID_VALUE, "no room for the name");
        std::snprintf(name, size_t(length), "Spirea emulation");
    });
}

EXPORTED int cuDeviceGetUuid(char* uuid, int device) {
    return initialised([&] {
        check_device(device);
        std::memcpy(uuid, "Spirea emulation", 16);
        uuid[15] = char('0' + device);
    });
}
EXPORTED int cuDeviceGetUuid_v2(char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }

EXPORTED int cuDeviceGetPCIBusId(char* text, int length, int device) {
    return initialised([&] {
        check_device(device);
        require(length > 12, INVALID_VALUE, "no room for the PCI address");
        std::snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
    });
}

EXPORTED int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    return initialised([&] {
        check_device(device);
        *bytes = state().configuration.memory;
    });
}

EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int device) {
    return initialised([&] {
        check_device(device);
        require(attribute > 0 && attribute <= LAST_ATTRIBUTE, INVALID_VALUE, "there is no such attribute");
        *value = 0;
        if (attribute == MULTIPROCESSOR_COUNT) *value = state().configuration.processors;
        if (attribute == PCI_BUS_ID) *value = device + 1;
        if (attribute == COMPUTE_MAJOR) *value = state().configuration.compute / 10;
        if (attribute == COMPUTE_MINOR) *value = state().configuration.compute % 10;
        const Limits limits = driver::limits(state().configuration.compute);
        if (attribute == MAX_THREADS_PER_MULTIPROCESSOR) *value = limits.threads;
        if (attribute == MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) *value = limits.shared;
        if (attribute == MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) *value = limits.shared_of_block;
        if (attribute == MAX_BLOCKS_PER_MULTIPROCESSOR) *value = limits.blocks;
        if (attribute == RESERVED_SHARED_MEMORY_PER_BLOCK) *value = limits.shared_reserved;
        for (const Attribute& known : ATTRIBUTES) {
            if (known.id == attribute) *value = known.value;
        }
    });
}

EXPORTED int cuDeviceCanAccessPeer(int* can, int device, int peer) {
    return initialised([&] {
        check_device(device);
        check_device(peer);
        *can = device != peer && state().configuration.peers;
    });
}

EXPORTED int cuDevicePrimaryCtxRetain(Context** context, int device) {
    return initialised([&] {
        Context& primary = context_of(device);
        if (primary.lost != SUCCESS) throw Error{primary.lost};
        primary.retained++;
        *context = &primary;
    });
}

// The last release destroys everything that was created in the context.
EXPORTED int cuDevicePrimaryCtxRelease_v2(int device) {
    return initialised([&] {
        Context& primary = context_of(device);
        require(primary.retained > 0, INVALID_CONTEXT, "the primary context was not retained");
        if (--primary.retained > 0) return;
        synchronize(primary);
        release_memory(primary);
        primary.peers.clear();
        primary.pool.visitors.clear();
        auto& driver = state();
        std::erase_if(driver.streams, [&](const auto& stream) { return stream->context == &primary; });
        std::erase_if(driver.events, [&](const auto& event) { return event.second->context == &primary; });
        std::erase_if(driver.functions, [&](const auto& function) { return function.first->context == &primary; });
        std::erase_if(driver.modules, [&](const auto& module) { return module.second->context == &primary; });
        std::erase_if(driver.graphs, [&](const auto& graph) { return graph.second->context == &primary; });
        std::erase_if(driver.executables, [&](const auto& graph) { return graph.second->context == &primary; });
    });
}

EXPORTED int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    return initialised([&] {
        *active = context_of(device).retained > 0;
        *flags = 0;
    });
}

EXPORTED int cuCtxSetCurrent(Context* context) {
    return initialised([&] { bind_context(context); });
}

EXPORTED int cuCtxGetCurrent(Context** context) {
    return initialised([&] { *context = bound_context(); });
}

EXPORTED int cuCtxGetDevice(int* device) {
    return in_context([&](Context& context) { *device = context.device; });
}

EXPORTED int cuCtxSynchronize() {
    return in_context([](Context& context) {
        require_no_capture(context, "cuCtxSynchronize");
        synchronize(context);
        check(context);
    });
}

// Flags select how the host waits, which makes no difference in the emulation.
EXPORTED int cuCtxSetFlags(unsigned) {
    return in_context([](Context&) {});
}

EXPORTED int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return in_context([&](Context&) {
        *least = 0;
        *greatest = -5;
    });
}

EXPORTED int cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
    return in_context([&](Context& context) {
        require(flags == 0, INVALID_VALUE, "the flags must be 0");
        require(peer != nullptr && peer->retained > 0, INVALID_CONTEXT, "the peer is no context");
        require(peer != &context && state().configuration.peers, PEER_ACCESS_UNSUPPORTED, "these are no peers");
        if (!context.peers.insert(peer).second) throw Error{PEER_ACCESS_ALREADY_ENABLED};
    });
}

EXPORTED int cuCtxDisablePeerAccess(Context* peer) {
    return in_context([&](Context& context) {
        require(context.peers.erase(peer) == 1, PEER_ACCESS_NOT_ENABLED, "peer access was not enabled");
    });
}

EXPORTED int cuGetErrorName(int code, const char** name) {
    const ErrorText* error = error_text(code);
    *name = error ? error->name : nullptr;
    return error ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cuGetErrorString(int code, const char** text) {
    const ErrorText* error = error_text(code);
    *text = error ? error->text : nullptr;
    return error ? SUCCESS : INVALID_VALUE;
}
