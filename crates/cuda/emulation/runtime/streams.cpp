// Streams and events. Work stays in its stream's queue until its result is needed. It then runs in
// an order that CUDA allows and that reveals missing synchronisation of the host.
#include <algorithm>
#include <chrono>

#include "driver.hpp"

namespace driver {

namespace {

double now_in_milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_satisfied(const Task& task) { return task.kind != Task::Kind::Wait || task.event->completed >= task.number; }

void run_until_recorded(const Event& event, uint64_t number);

// Runs a task whose dependencies are satisfied. Drops work of a lost context.
void execute(const Task& task, Context& context) {
    if (task.kind == Task::Kind::Record) {
        task.event->completed = std::max(task.event->completed, task.number);
        task.event->milliseconds = now_in_milliseconds();
    }
    if (task.kind != Task::Kind::Work || context.lost != SUCCESS) return;
    try {
        task.work(context);
    } catch (const Error& error) {
        lose(context, error.code, state().last_error);
    }
}

// Runs the queue's first task, after the event that it waits for.
void run_front(Stream& stream) {
    if (!is_satisfied(stream.queue.front())) run_until_recorded(*stream.queue.front().event, stream.queue.front().number);
    const Task task = std::move(stream.queue.front());
    stream.queue.pop_front();
    execute(task, *stream.context);
}

void run_until_recorded(const Event& event, uint64_t number) {
    for (const auto& stream : state().streams) {
        const auto is_record = [&](const Task& task) {
            return task.kind == Task::Kind::Record && task.event.get() == &event && task.number >= number;
        };
        if (!std::any_of(stream->queue.begin(), stream->queue.end(), is_record)) continue;
        while (event.completed < number) run_front(*stream);
        return;
    }
}

// Runs all work, always from the newest stream that can continue.
void run_newest_first() {
    auto& streams = state().streams;
    for (bool ran = true; ran;) {
        ran = false;
        for (size_t i = streams.size(); i-- > 0 && !ran;) {
            Stream& stream = *streams[i];
            while (!stream.queue.empty() && is_satisfied(stream.queue.front())) {
                run_front(stream);
                ran = true;
            }
        }
    }
}

// Runs the queues that are needed, in the configured order.
template <class Needed>
void run_needed(Needed needed) {
    if (state().configuration.stream_order == StreamOrder::LastFirst) run_newest_first();
    for (const auto& stream : state().streams) {
        while (needed(*stream) && !stream->queue.empty()) run_front(*stream);
    }
    std::erase_if(state().streams, [](const auto& stream) { return stream->destroyed && stream->queue.empty(); });
}

Event& event_of(Event* handle) {
    require(state().events.contains(handle), INVALID_HANDLE, "this is no event");
    return *handle;
}

Stream* create(Context& context, unsigned flags, int priority) {
    require(flags <= 1, INVALID_VALUE, "unknown flags of a stream");
    auto stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->blocking = flags == 0;
    stream->priority = priority;
    state().streams.push_back(std::move(stream));
    return state().streams.back().get();
}

void require_not_capturing(const Stream& stream, const char* call) {
    if (!stream.capture) return;
    stream.capture->invalid = true;
    refuse(CAPTURE_UNSUPPORTED, std::string(call) + " of a stream that captures");
}

}  // namespace

Stream& stream_of(Stream* handle) {
    require(reinterpret_cast<uintptr_t>(handle) > 2, INVALID_VALUE,
            "the legacy and the per-thread default streams are refused: create a stream");
    for (const auto& stream : state().streams) {
        if (stream.get() != handle || stream->destroyed) continue;
        check(*stream->context);
        return *stream;
    }
    refuse(INVALID_HANDLE, "this is no stream");
}

void enqueue(Stream& stream, Task task) {
    if (stream.capture) {
        Graph& graph = *stream.capture;
        graph.nodes.push_back({std::move(task), stream.front});
        stream.front = {graph.nodes.size() - 1};
        return;
    }
    stream.queue.push_back(std::move(task));
    if (state().configuration.stream_order != StreamOrder::Eager) return;
    while (!stream.queue.empty()) run_front(stream);
    check(*stream.context);
}

void synchronize(Stream& stream) {
    run_needed([&](const Stream& other) { return &other == &stream; });
}
void synchronize(Context& context) {
    run_needed([&](const Stream& stream) { return stream.context == &context; });
}
void synchronize_blocking(Context& context) {
    run_needed([&](const Stream& stream) { return stream.context == &context && stream.blocking; });
}
void synchronize(Event& event) {
    run_needed([](const Stream&) { return false; });
    run_until_recorded(event, event.recorded);
}

void make_progress(Stream& stream) {
    if (!stream.queue.empty()) run_front(stream);
}
void make_progress(Event& event) {
    for (const auto& stream : state().streams) {
        for (const Task& task : stream->queue) {
            if (task.event.get() == &event && task.kind == Task::Kind::Record) return run_front(*stream);
        }
    }
}

void require_no_capture(const Context& context, const char* call) {
    for (const auto& stream : state().streams) {
        if (stream->context == &context) require_not_capturing(*stream, call);
    }
}

void require_safe(const Context& context, const char* call) {
    for (const auto& stream : state().streams) {
        if (stream->context != &context || !stream->capture) continue;
        const Graph& graph = *stream->capture;
        if (!graph.of_thread || graph.thread == std::this_thread::get_id()) require_not_capturing(*stream, call);
    }
}

}  // namespace driver

using namespace driver;

EXPORTED int cuStreamCreateWithPriority(Stream** handle, unsigned flags, int priority) {
    return in_context([&](Context& context) { *handle = create(context, flags, priority); });
}
EXPORTED int cuStreamCreate(Stream** handle, unsigned flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

// Queued work still runs, at some later time.
EXPORTED int cuStreamDestroy_v2(Stream* handle) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        stream.destroyed = true;
        if (stream.queue.empty()) {
            std::erase_if(state().streams, [&](const auto& other) { return other.get() == handle; });
        }
    });
}

EXPORTED int cuStreamSynchronize(Stream* handle) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        require_not_capturing(stream, "cuStreamSynchronize");
        Context& context = *stream.context;
        synchronize(stream);
        check(context);
    });
}

// Each query runs one task of the stream.
EXPORTED int cuStreamQuery(Stream* handle) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        require_not_capturing(stream, "cuStreamQuery");
        if (stream.queue.empty()) return;
        make_progress(stream);
        check(*stream.context);
        throw Error{NOT_READY};
    });
}

EXPORTED int cuStreamGetPriority(Stream* handle, int* priority) {
    return initialised([&] { *priority = stream_of(handle).priority; });
}

EXPORTED int cuStreamGetCtx(Stream* handle, Context** context) {
    return initialised([&] { *context = stream_of(handle).context; });
}

EXPORTED int cuStreamWaitEvent(Stream* handle, Event* event_handle, unsigned) {
    return initialised([&] {
        Stream& stream = stream_of(handle);
        Event& event = event_of(event_handle);
        if (event.captured) {
            // The stream joins the event's capture.
            require(stream.capture == nullptr || stream.capture == event.captured, CAPTURE_ISOLATION,
                    "the event belongs to another capture");
            stream.capture = event.captured;
            stream.front.insert(event.nodes.begin(), event.nodes.end());
            return;
        }
        if (event.recorded == 0) return;
        require(!stream.capture, CAPTURE_ISOLATION, "a captured stream waits for an event from outside");
        enqueue(stream, {Task::Kind::Wait, {}, state().events[event_handle], event.recorded});
    });
}

EXPORTED int cuLaunchHostFunc(Stream* handle, void (*function)(void*), void* argument) {
    return initialised([&] { enqueue(stream_of(handle), {.work = [=](Context&) { function(argument); }}); });
}

EXPORTED int cuEventCreate(Event** handle, unsigned flags) {
    return in_context([&](Context& context) {
        auto event = std::make_shared<Event>();
        event->context = &context;
        event->timed = (flags & 2) == 0;
        *handle = event.get();
        state().events[event.get()] = std::move(event);
    });
}

EXPORTED int cuEventDestroy_v2(Event* handle) {
    return initialised([&] {
        event_of(handle);
        state().events.erase(handle);
    });
}

EXPORTED int cuEventRecord(Event* handle, Stream* stream_handle) {
    return initialised([&] {
        Event& event = event_of(handle);
        Stream& stream = stream_of(stream_handle);
        require(event.context == stream.context, INVALID_HANDLE, "the event and the stream are of different contexts");
        event.captured = stream.capture;
        event.nodes = stream.front;
        if (stream.capture) return;
        enqueue(stream, {Task::Kind::Record, {}, state().events[handle], ++event.recorded});
    });
}

EXPORTED int cuEventQuery(Event* handle) {
    return initialised([&] {
        Event& event = event_of(handle);
        check(*event.context);
        require(!event.captured, CAPTURED_EVENT, "the event stands in a capture");
        if (event.completed >= event.recorded) return;
        make_progress(event);
        check(*event.context);
        throw Error{NOT_READY};
    });
}

EXPORTED int cuEventSynchronize(Event* handle) {
    return initialised([&] {
        Event& event = event_of(handle);
        check(*event.context);
        require(!event.captured, CAPTURED_EVENT, "the event stands in a capture");
        synchronize(event);
        check(*event.context);
    });
}

EXPORTED int cuEventElapsedTime(float* milliseconds, Event* start_handle, Event* end_handle) {
    return initialised([&] {
        const Event &start = event_of(start_handle), &end = event_of(end_handle);
        check(*start.context);
        require(start.timed && end.timed && start.recorded > 0 && end.recorded > 0, INVALID_HANDLE,
                "both events must be recorded, and made with timing");
        if (start.completed < start.recorded || end.completed < end.recorded) throw Error{NOT_READY};
        *milliseconds = float(end.milliseconds - start.milliseconds);
    });
}
