// Device and pinned memory: host memory of exactly the requested size, so that AddressSanitizer
// sees its end.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "driver.hpp"

namespace driver {

namespace {

constexpr unsigned char FRESH = 0xDB, FREED = 0xDD;
constexpr size_t DEVICE_ALIGNMENT = 256, PAGE = 4096;

unsigned char* bytes_at(DevicePointer address) { return reinterpret_cast<unsigned char*>(address); }

uint64_t bytes_of(const Context& context, bool pooled) {
    uint64_t bytes = 0;
    for (const auto& [base, allocation] : state().memory) {
        if (allocation.context == &context && allocation.pooled == pooled) bytes += allocation.bytes;
    }
    return bytes;
}

// Returns the bytes that belong neither to an allocation nor to the pool.
uint64_t free_bytes(const Context& context) {
    const uint64_t taken = bytes_of(context, false) + context.pool.reserved;
    return state().configuration.memory - std::min(taken, state().configuration.memory);
}

// Grows the pool to `used` bytes, if it is smaller.
void grow(Context& context, uint64_t used) {
    Pool& pool = context.pool;
    if (used > pool.reserved) {
        require(used - pool.reserved <= free_bytes(context), OUT_OF_MEMORY, "the device's memory is exhausted");
        pool.reserved = used;
    }
    pool.most_used = std::max(pool.most_used, used);
    pool.most_reserved = std::max(pool.most_reserved, pool.reserved);
}

// Returns unused memory of the pool to the system, but keeps at least `kept` bytes.
void shrink(Context& context, uint64_t kept) {
    Pool& pool = context.pool;
    if (pool.reserved > kept) pool.reserved = std::max(kept, bytes_of(context, true));
}

Allocation& allocate(uint64_t bytes, size_t alignment, Context* context = nullptr, bool pooled = false) {
    require(bytes > 0, INVALID_VALUE, "an allocation of no bytes");
    if (pooled) {
        const uint64_t used = bytes_of(*context, true);
        grow(*context, used + std::min(bytes, UINT64_MAX - used));
    } else if (context) {
        // As drivers do: the pool gives up unused memory before an allocation fails.
        const uint64_t free = free_bytes(*context);
        if (bytes > free) shrink(*context, context->pool.reserved - std::min(bytes - free, context->pool.reserved));
        require(bytes <= free_bytes(*context), OUT_OF_MEMORY, "the device's memory is exhausted");
    }
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes + emulation::TAIL) != 0) throw Error{OUT_OF_MEMORY};
    std::memset(memory, FRESH, bytes);
    const auto base = reinterpret_cast<DevicePointer>(memory);
    emulation::mark_tail(bytes_at(base) + bytes);
    return state().memory[base] = {.base = base, .bytes = bytes, .context = context, .pooled = pooled};
}

void release(DevicePointer base) {
    const auto found = state().memory.find(base);
    if (found == state().memory.end()) return;
    const Allocation allocation = found->second;
    if (!allocation.registered) {
        std::memset(bytes_at(base), FREED, allocation.bytes);
        std::free(bytes_at(base));
    }
    state().memory.erase(found);
    if (allocation.pooled) {
        Context& context = context_of(allocation.context->device);
        shrink(context, context.pool.release_threshold);
    }
}

// Returns the allocation that begins at `base`.
Allocation& allocation_at(DevicePointer base, bool pinned) {
    const auto found = state().memory.find(base);
    const bool right = found != state().memory.end() && (found->second.context == nullptr) == pinned;
    require(right && !found->second.freeing, INVALID_VALUE, "this is not the beginning of an allocation");
    return found->second;
}

// Returns true if queued work will use this pinned memory.
bool in_use(const Allocation& pinned) {
    for (const auto& stream : state().streams) {
        for (const Task& task : stream->queue) {
            if (task.pinned >= pinned.base && task.pinned < pinned.base + pinned.bytes) return true;
        }
    }
    return false;
}

void free_pinned(const Allocation& pinned) {
    if (in_use(pinned)) {
        const char* message = "pinned memory was freed before a copy in a stream has used it";
        for (auto& context : state().contexts) lose(*context, ILLEGAL_ADDRESS, message);
        refuse(ILLEGAL_ADDRESS, message);
    }
    release(pinned.base);
}

void free_device(Context& context, DevicePointer base) {
    const Allocation& allocation = allocation_at(base, false);
    synchronize(context_of(allocation.context->device));
    check(context);
    release(base);
}

}  // namespace

Allocation* find_allocation(DevicePointer address) {
    auto& memory = state().memory;
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return nullptr;
    Allocation& allocation = std::prev(after)->second;
    return address - allocation.base <= allocation.bytes ? &allocation : nullptr;
}

bool can_access(const Context& context, const Allocation& allocation) {
    const Context* owner = allocation.context;
    if (!owner || owner == &context) return true;
    return allocation.pooled ? owner->pool.visitors.contains(context.device) : context.peers.contains(owner);
}

// At a call, memory is valid between the call that allocates it and the call that frees it. At
// execution, memory is valid while it is live in stream order.
void check_range(DevicePointer address, uint64_t bytes, const Context& context, Result code, bool at_call) {
    const Allocation* allocation = find_allocation(address);
    require(allocation && allocation->context == &context, code, "the range is not memory of the context's device");
    require(bytes <= allocation->bytes - (address - allocation->base), code, "the range leaves its allocation");
    if (at_call) {
        require(!allocation->freeing, code, "the memory was freed by an earlier call");
    } else {
        require(allocation->live, code, "the memory is used before its allocation in stream order");
    }
}

void release_memory(const Context& context) {
    std::vector<DevicePointer> bases;
    for (const auto& [base, allocation] : state().memory) {
        if (allocation.context == &context) bases.push_back(base);
    }
    for (DevicePointer base : bases) release(base);
    context_of(context.device).pool.reserved = 0;
}

const Allocation* find_overrun() {
    for (const auto& [base, allocation] : state().memory) {
        if (!allocation.registered && !emulation::is_tail_intact(bytes_at(base) + allocation.bytes)) return &allocation;
    }
    return nullptr;
}

bool is_pinned(const void* host, uint64_t bytes) {
    const auto address = reinterpret_cast<DevicePointer>(host);
    const Allocation* allocation = find_allocation(address);
    return allocation && !allocation->context && bytes <= allocation->bytes - (address - allocation->base);
}

}  // namespace driver

using namespace driver;

EXPORTED int cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
    return in_context([&](Context& context) {
        require_safe(context, "cuMemAlloc");
        *pointer = allocate(bytes, DEVICE_ALIGNMENT, &context).base;
    });
}

EXPORTED int cuMemFree_v2(DevicePointer pointer) {
    return in_context([&](Context& context) {
        require_safe(context, "cuMemFree");
        if (pointer != 0) free_device(context, pointer);
    });
}

EXPORTED int cuMemAllocAsync(DevicePointer* pointer, size_t bytes, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        require(!stream.capture, NOT_SUPPORTED, "allocations in a captured stream are not emulated");
        Allocation& allocation = allocate(bytes, DEVICE_ALIGNMENT, stream.context, true);
        allocation.live = false;
        *pointer = allocation.base;
        // Fill the memory again when the allocation takes effect, so that bytes written too early
        // are lost.
        enqueue(stream, {.work = [base = allocation.base](Context&) {
                    if (Allocation* born = find_allocation(base)) {
                        born->live = true;
                        std::memset(bytes_at(base), FRESH, born->bytes);
                    }
                }});
    });
}

EXPORTED int cuMemFreeAsync(DevicePointer pointer, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        if (pointer == 0) return;
        require(!stream.capture, NOT_SUPPORTED, "allocations in a captured stream are not emulated");
        allocation_at(pointer, false).freeing = true;
        enqueue(stream, {.work = [pointer](Context&) { release(pointer); }});
    });
}

EXPORTED int cuMemGetInfo_v2(size_t* free, size_t* total) {
    return in_context([&](Context& context) {
        *total = state().configuration.memory;
        *free = free_bytes(context);
    });
}

EXPORTED int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    return in_context([&](Context&) { *pointer = bytes_at(allocate(bytes, PAGE).base); });
}
EXPORTED int cuMemAllocHost_v2(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

// Hardware waits for the device here. The emulation fails instead, to reveal code that relies on
// this wait.
EXPORTED int cuMemFreeHost(void* pointer) {
    return in_context([&](Context&) {
        const Allocation& allocation = allocation_at(reinterpret_cast<DevicePointer>(pointer), true);
        require(!allocation.registered, INVALID_VALUE, "this memory was registered, not allocated");
        free_pinned(allocation);
    });
}

EXPORTED int cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
    return in_context([&](Context&) {
        require(pointer && bytes > 0, INVALID_VALUE, "no memory to register");
        const auto base = reinterpret_cast<DevicePointer>(pointer);
        require(!is_pinned(pointer, 1), HOST_MEMORY_ALREADY_REGISTERED, "this memory is registered already");
        state().memory[base] = {.base = base, .bytes = bytes, .registered = true};
    });
}

EXPORTED int cuMemHostUnregister(void* pointer) {
    return in_context([&](Context&) {
        const auto base = reinterpret_cast<DevicePointer>(pointer);
        const auto found = state().memory.find(base);
        require(found != state().memory.end() && found->second.registered, HOST_MEMORY_NOT_REGISTERED,
                "this memory was not registered");
        free_pinned(found->second);
    });
}

// The handle of a device's pool is its context.
EXPORTED int cuDeviceGetDefaultMemPool(Context** pool, int device) {
    return initialised([&] { *pool = &context_of(device); });
}
EXPORTED int cuDeviceGetMemPool(Context** pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }

// Attributes of a pool: 1 to 3 are switches; 4 is the threshold of freed memory that it keeps. 5
// and 7 are the bytes reserved and in use; 6 and 8 are their high marks, which a caller may only
// reset.
EXPORTED int cuMemPoolSetAttribute(Context* context, int attribute, void* value) {
    return initialised([&] {
        require(context && value && attribute >= 1 && attribute <= 8, INVALID_VALUE, "there is no such attribute");
        require(attribute != 5 && attribute != 7, INVALID_VALUE, "this attribute is only read");
        Pool& pool = context->pool;
        if (attribute == 4) pool.release_threshold = *static_cast<uint64_t*>(value);
        if (attribute == 6 || attribute == 8) {
            require(*static_cast<uint64_t*>(value) == 0, INVALID_VALUE, "a high mark is only set back");
            if (attribute == 6) pool.most_reserved = pool.reserved;
            if (attribute == 8) pool.most_used = bytes_of(*context, true);
        }
    });
}

EXPORTED int cuMemPoolGetAttribute(Context* context, int attribute, void* value) {
    return initialised([&] {
        require(context && value && attribute >= 1 && attribute <= 8, INVALID_VALUE, "there is no such attribute");
        if (attribute <= 3) {
            *static_cast<int*>(value) = 1;
            return;
        }
        const Pool& pool = context->pool;
        const uint64_t values[] = {pool.release_threshold, pool.reserved, pool.most_reserved, bytes_of(*context, true),
                                   pool.most_used};
        *static_cast<uint64_t*>(value) = values[attribute - 4];
    });
}

EXPORTED int cuMemPoolTrimTo(Context* pool, size_t kept) {
    return initialised([&] {
        require(pool != nullptr, INVALID_VALUE, "no pool");
        shrink(*pool, kept);
    });
}

// CUmemAccessDesc: a device (type 1), and 3 for access or 0 for none.
struct Access {
    int type, device, flags;
};
EXPORTED int cuMemPoolSetAccess(Context* context, const Access* accesses, size_t count) {
    return initialised([&] {
        require(context && accesses, INVALID_VALUE, "no pool, or no description of an access");
        for (const Access& access : std::span(accesses, count)) {
            require(access.type == 1 && (access.flags == 0 || access.flags == 3), INVALID_VALUE, "there is no such access");
            require(access.device != context->device || access.flags == 3, INVALID_VALUE, "a pool is its device's own");
            require(access.device == context->device || state().configuration.peers, PEER_ACCESS_UNSUPPORTED,
                    "these are no peers");
            context_of(access.device);
            if (access.flags == 3) context->pool.visitors.insert(access.device);
            if (access.flags == 0) context->pool.visitors.erase(access.device);
        }
    });
}
