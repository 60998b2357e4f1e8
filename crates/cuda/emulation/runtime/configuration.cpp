// Functions of the emulation itself, by which tests configure and read it. All take plain values;
// the Rust side documents them.
#include "driver.hpp"

#include <cstdlib>

using namespace driver;

int driver::setting(const char* variable, int usual) {
    const char* value = std::getenv(variable);
    return value ? std::atoi(value) : usual;
}

Limits driver::limits(int compute) {
    switch (compute) {
        case 75: return {64 << 10, 64 << 10, 0, 1024, 16};
        case 80: return {163 << 10, 164 << 10, 1 << 10, 2048, 32};
        case 87: return {163 << 10, 164 << 10, 1 << 10, 1536, 16};
        case 86: return {99 << 10, 100 << 10, 1 << 10, 1536, 16};
        case 89:
        case 120: return {99 << 10, 100 << 10, 1 << 10, 1536, 24};
        default: return {227 << 10, 228 << 10, 1 << 10, 2048, 32};
    }
}

EXPORTED void spirea_emulation_set_devices(int devices, uint64_t bytes_each, int processors, bool peers) {
    call([&] {
        auto& configuration = state().configuration;
        configuration.devices = devices;
        configuration.memory = bytes_each;
        configuration.processors = processors;
        configuration.peers = peers;
    });
}

// Sets the driver's version, such as 13000, and the devices' compute capability, such as 90.
EXPORTED void spirea_emulation_set_model(int version, int compute) {
    call([&] {
        auto& configuration = state().configuration;
        configuration.version = version;
        configuration.compute = compute;
    });
}

EXPORTED void spirea_emulation_set_orders(int threads, int streams, uint64_t seed) {
    call([&] {
        auto& configuration = state().configuration;
        configuration.thread_order = static_cast<emulation::ThreadOrder>(threads);
        configuration.stream_order = static_cast<StreamOrder>(streams);
        configuration.seed = seed;
    });
}

// Makes every launch lose its device after `launches` more launches; never for a negative number.
EXPORTED void spirea_emulation_lose_after(int64_t launches) {
    call([&] { state().launches_left = launches; });
}

// Restores lost devices, drops the work queued for them, ends the injection of failures, and sets
// all counters to 0.
EXPORTED void spirea_emulation_reset() {
    call([&] {
        auto& driver = state();
        for (auto& stream : driver.streams) {
            if (stream->context->lost == SUCCESS) continue;
            stream->queue.clear();
            stream->capture = nullptr;
        }
        for (auto& [handle, event] : driver.events) {
            if (event->context->lost != SUCCESS) event->completed = event->recorded;
        }
        for (auto& context : driver.contexts) context->lost = SUCCESS;
        driver.launches_left = -1;
        driver.last_error.clear();
        driver.counters = {};
    });
}

// Returns the last error; valid until this thread's next call.
EXPORTED const char* spirea_emulation_last_error() {
    thread_local std::string copy;
    call([&] { copy = state().last_error; });
    return copy.c_str();
}

// Returns the number of launches of a kernel; of all kernels if `kernel` is null.
EXPORTED uint64_t spirea_emulation_launches(const char* kernel) {
    uint64_t count = 0;
    call([&] {
        for (const auto& [name, launches] : state().counters.launches) {
            if (!kernel || name == kernel) count += launches;
        }
    });
    return count;
}

EXPORTED void spirea_emulation_bytes(uint64_t* to_device, uint64_t* to_host, uint64_t* on_device, uint64_t* between,
                                     uint64_t* staged) {
    call([&] {
        const Counters& counters = state().counters;
        *to_device = counters.to_device;
        *to_host = counters.to_host;
        *on_device = counters.on_device;
        *between = counters.between_devices;
        *staged = counters.staged;
    });
}

// Counts a device's live allocations and their bytes; pinned memory for device -1.
EXPORTED void spirea_emulation_live(int device, uint64_t* allocations, uint64_t* bytes) {
    *allocations = *bytes = 0;
    call([&] {
        for (const auto& [base, allocation] : state().memory) {
            if ((allocation.context ? allocation.context->device : -1) != device) continue;
            ++*allocations;
            *bytes += allocation.bytes;
        }
    });
}

// Returns the name of kernel `i`; null past the last kernel.
EXPORTED const char* spirea_emulation_kernel(size_t i) {
    const auto& kernels = emulation::all_kernels();
    return i < kernels.size() ? kernels[i]->name : nullptr;
}
