// Copies and fills. A copy from or to pinned memory accesses the host's bytes when it runs. A copy
// from pageable memory reads them during the call, and a copy to pageable memory completes before
// the call returns.
#include <cstring>

#include "driver.hpp"

namespace driver {

namespace {

unsigned char* bytes_at(DevicePointer address) { return reinterpret_cast<unsigned char*>(address); }

void copy_to_device(Stream& stream, DevicePointer to, const void* from, size_t bytes) {
    const bool pinned = is_pinned(from, bytes);
    require(pinned || !stream.capture, CAPTURE_UNSUPPORTED, "a captured copy needs pinned memory");
    Task task;
    std::shared_ptr<std::vector<unsigned char>> staged;
    if (pinned) {
        task.pinned = reinterpret_cast<DevicePointer>(from);
    } else {
        const auto* first = static_cast<const unsigned char*>(from);
        staged = std::make_shared<std::vector<unsigned char>>(first, first + bytes);
    }
    task.work = [=](Context& context) {
        check_range(to, bytes, context, ILLEGAL_ADDRESS, false);
        std::memcpy(bytes_at(to), staged ? staged->data() : from, bytes);
        state().counters.to_device += bytes;
    };
    enqueue(stream, std::move(task));
}

void copy_to_host(Stream& stream, void* to, DevicePointer from, size_t bytes) {
    const bool pinned = is_pinned(to, bytes);
    require(pinned || !stream.capture, CAPTURE_UNSUPPORTED, "a captured copy needs pinned memory");
    Task task;
    if (pinned) task.pinned = reinterpret_cast<DevicePointer>(to);
    task.work = [=](Context& context) {
        check_range(from, bytes, context, ILLEGAL_ADDRESS, false);
        std::memcpy(to, bytes_at(from), bytes);
        state().counters.to_host += bytes;
    };
    enqueue(stream, std::move(task));
    if (!pinned) {
        synchronize(stream);
        check(*stream.context);
    }
}

void copy_between(DevicePointer to, Context& to_context, DevicePointer from, Context& from_context, size_t bytes) {
    check_range(to, bytes, to_context, ILLEGAL_ADDRESS, false);
    check_range(from, bytes, from_context, ILLEGAL_ADDRESS, false);
    std::memmove(bytes_at(to), bytes_at(from), bytes);
    auto& counters = state().counters;
    (&to_context == &from_context ? counters.on_device : counters.between_devices) += bytes;
    // A copy between devices is direct if the copying device, that of the target, can access the source.
    if (!can_access(to_context, *find_allocation(from))) counters.staged += bytes;
}

void fill(DevicePointer to, const Context& context, uint32_t value, size_t width, size_t count) {
    check_range(to, width * count, context, ILLEGAL_ADDRESS, false);
    for (size_t i = 0; i < count; i++) std::memcpy(bytes_at(to) + width * i, &value, width);
}

int fill_async(DevicePointer to, uint32_t value, size_t width, size_t count, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        if (count == 0) return;
        require(to % width == 0, INVALID_VALUE, "the fill is misaligned");
        check_range(to, width * count, *stream.context, INVALID_VALUE, true);
        enqueue(stream, {.work = [=](Context& context) { fill(to, context, value, width, count); }});
    });
}

// Runs a call without a stream. It belongs to the legacy stream, which waits only for blocking
// streams.
template <class Body>
int at_once(const char* name, size_t bytes, Body body) {
    return in_context([&](Context& context) {
        require_safe(context, name);
        synchronize_blocking(context);
        check(context);
        if (bytes > 0) body(context);
    });
}

int fill_at_once(DevicePointer to, uint32_t value, size_t width, size_t count) {
    return at_once("cuMemset", count, [&](Context& context) {
        require(to % width == 0, INVALID_VALUE, "the fill is misaligned");
        check_range(to, width * count, context, INVALID_VALUE, true);
        fill(to, context, value, width, count);
    });
}

}  // namespace

}  // namespace driver

using namespace driver;

EXPORTED int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        if (bytes == 0) return;
        check_range(to, bytes, *stream.context, INVALID_VALUE, true);
        copy_to_device(stream, to, from, bytes);
    });
}

EXPORTED int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        if (bytes == 0) return;
        check_range(from, bytes, *stream.context, INVALID_VALUE, true);
        copy_to_host(stream, to, from, bytes);
    });
}

EXPORTED int cuMemcpyPeerAsync(DevicePointer to, Context* to_context, DevicePointer from, Context* from_context,
                               size_t bytes, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        require(to_context && from_context, INVALID_CONTEXT, "a copy between devices needs both contexts");
        check(*to_context);
        check(*from_context);
        if (bytes == 0) return;
        check_range(to, bytes, *to_context, INVALID_VALUE, true);
        check_range(from, bytes, *from_context, INVALID_VALUE, true);
        enqueue(stream, {.work = [=](Context&) { copy_between(to, *to_context, from, *from_context, bytes); }});
    });
}

EXPORTED int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream* handle) {
    return in_context([&](Context&) {
        Stream& stream = stream_of(handle);
        if (bytes == 0) return;
        check_range(to, bytes, *stream.context, INVALID_VALUE, true);
        check_range(from, bytes, *stream.context, INVALID_VALUE, true);
        enqueue(stream, {.work = [=](Context& context) { copy_between(to, context, from, context, bytes); }});
    });
}

EXPORTED int cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
    return at_once("cuMemcpyHtoD", bytes, [&](Context& context) {
        check_range(to, bytes, context, INVALID_VALUE, true);
        check_range(to, bytes, context, ILLEGAL_ADDRESS, false);
        std::memcpy(bytes_at(to), from, bytes);
        state().counters.to_device += bytes;
    });
}

EXPORTED int cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
    return at_once("cuMemcpyDtoH", bytes, [&](Context& context) {
        check_range(from, bytes, context, INVALID_VALUE, true);
        check_range(from, bytes, context, ILLEGAL_ADDRESS, false);
        std::memcpy(to, bytes_at(from), bytes);
        state().counters.to_host += bytes;
    });
}

EXPORTED int cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
    return at_once("cuMemcpyDtoD", bytes, [&](Context& context) {
        check_range(to, bytes, context, INVALID_VALUE, true);
        check_range(from, bytes, context, INVALID_VALUE, true);
        copy_between(to, context, from, context, bytes);
    });
}

EXPORTED int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, Stream* stream) {
    return fill_async(to, value, 1, count, stream);
}
EXPORTED int cuMemsetD32Async(DevicePointer to, unsigned value, size_t count, Stream* stream) {
    return fill_async(to, value, 4, count, stream);
}
EXPORTED int cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t count) {
    return fill_at_once(to, value, 1, count);
}
EXPORTED int cuMemsetD32_v2(DevicePointer to, unsigned value, size_t count) {
    return fill_at_once(to, value, 4, count);
}
