// The emulation's own functions: what tests set and read. All take plain values; see the Rust side for their meaning.
#include "driver.hpp"

using namespace driver;

EXPORTED void spirea_emulation_set_devices(int devices, uint64_t bytes_each, int processors, bool peers) {
    call([&] {
        auto& configuration = state().configuration;
        configuration.devices = devices;
        configuration.memory = bytes_each;
        configuration.processors = processors;
        configuration.peers = peers;
    });
}

// The driver's version, such as 13000, and the devices' compute capability, such as 90.
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

// After `launches` more launches every launch loses its device; never for a negative number.
EXPORTED void spirea_emulation_lose_after(int64_t launches) {
    call([&] { state().launches_left = launches; });
}

// Makes lost devices new, without what was queued for them, ends the injection of failures, and sets all counters to 0.
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

// Valid until this thread asks again.
EXPORTED const char* spirea_emulation_last_error() {
    thread_local std::string copy;
    call([&] { copy = state().last_error; });
    return copy.c_str();
}

// Of all kernels for null.
EXPORTED uint64_t spirea_emulation_launches(const char* kernel) {
    uint64_t count = 0;
    call([&] {
        for (const auto& [name, launches] : state().counters.launches) {
            if (!kernel || name == kernel) count += launches;
        }
    });
    return count;
}

EXPORTED void spirea_emulation_bytes(uint64_t* to_device, uint64_t* to_host, uint64_t* on_device, uint64_t* between) {
    call([&] {
        const Counters& counters = state().counters;
        *to_device = counters.to_device;
        *to_host = counters.to_host;
        *on_device = counters.on_device;
        *between = counters.between_devices;
    });
}

// Device memory, or pinned memory for device -1.
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

// Null behind the last one.
EXPORTED const char* spirea_emulation_kernel(size_t i) {
    const auto& kernels = emulation::all_kernels();
    return i < kernels.size() ? kernels[i]->name : nullptr;
}
