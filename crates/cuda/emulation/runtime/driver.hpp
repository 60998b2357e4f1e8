// The state of the driver, and what all of its functions share. One lock guards all of it; kernels run under it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "grid.hpp"

namespace driver {

using DevicePointer = unsigned long long;

enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    PEER_ACCESS_UNSUPPORTED = 217,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907,
    UNKNOWN = 999,
};

// Ends a call of the driver with this code.
struct Error {
    Result code;
};
// The same, with words for `spirea_emulation_last_error`.
[[noreturn]] void refuse(Result code, const std::string& message);
inline void require(bool condition, Result code, const char* message) {
    if (!condition) refuse(code, message);
}

// When queued work runs; see `StreamOrder` of the Rust side.
enum class StreamOrder { Eager, Lazy, LastFirst };

struct Configuration {
    int devices = 1;
    uint64_t memory = uint64_t(4) << 30;
    emulation::ThreadOrder thread_order = emulation::ThreadOrder::Forward;
    StreamOrder stream_order = StreamOrder::Eager;
    int version = 13000;
    int compute = 90;
    bool peers = true;
    int processors = 132;
    uint64_t seed = 1;
};

// The memory that allocations in stream order come from. What is freed stays with it, up to its threshold.
struct Pool {
    uint64_t release_threshold = 0;
    uint64_t reserved = 0;
    // At one time, since the marks were set back.
    uint64_t most_reserved = 0, most_used = 0;
};

struct Context {
    int device = 0;
    unsigned retained = 0;
    Result lost = SUCCESS;
    Pool pool;
    std::set<const Context*> peers;
};

// Device or pinned memory.
struct Allocation {
    DevicePointer base = 0;
    uint64_t bytes = 0;
    const Context* context = nullptr;  // null for pinned memory
    bool live = true;                  // false until a queued allocation has run
    bool freeing = false;              // once freeing it is queued
    bool registered = false;           // pinned memory of the caller's
    bool pooled = false;               // from the pool of its device
};

struct Stream;
struct Graph;

// An event. Records are numbered; a wait is for the number that was current when it was called.
struct Event {
    const Context* context = nullptr;
    bool timed = true;
    uint64_t recorded = 0, completed = 0;
    double milliseconds = 0;
    // The capture and the nodes that it stands for, where it was recorded in one.
    Graph* captured = nullptr;
    std::set<size_t> nodes;
};

// One asynchronous operation.
struct Task {
    enum class Kind { Work, Record, Wait };
    Kind kind = Kind::Work;
    std::function<void(Context&)> work = {};  // throws Error
    std::shared_ptr<Event> event = nullptr;
    uint64_t number = 0;
    // Pinned memory that it will read or write.
    DevicePointer pinned = 0;
};

// A captured stream's work: tasks, each after some earlier ones.
struct Graph {
    struct Node {
        Task task;
        std::set<size_t> after;
    };
    const Context* context = nullptr;
    Stream* origin = nullptr;
    std::vector<Node> nodes;
    bool invalid = false;
    // Whose calls that are unsafe meanwhile are refused: this thread's, or everybody's.
    std::thread::id thread = {};
    bool of_thread = false;
};

struct Stream {
    Context* context = nullptr;
    uint64_t id = 0;
    bool blocking = true;
    bool destroyed = false;
    int priority = 0;
    std::deque<Task> queue;
    // While it captures: the graph, and the nodes that its next one follows.
    Graph* capture = nullptr;
    std::set<size_t> front;
};

struct Module;
struct Function {
    const emulation::Kernel* kernel = nullptr;
    Context* context = nullptr;
    Module* module = nullptr;
    int dynamic_limit = 0;
    int carveout = -1;
};
struct Module {
    Context* context = nullptr;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

// Counted since the last reset.
struct Counters {
    std::map<std::string, uint64_t, std::less<>> launches;
    uint64_t to_device = 0, to_host = 0, on_device = 0, between_devices = 0;
};

struct Driver {
    std::mutex mutex;
    Configuration configuration;
    bool initialised = false;
    std::vector<std::unique_ptr<Context>> contexts;  // by device
    std::map<DevicePointer, Allocation> memory;      // by base
    std::vector<std::unique_ptr<Stream>> streams;    // in the order of their creation
    std::map<Event*, std::shared_ptr<Event>> events;
    std::map<Module*, std::unique_ptr<Module>> modules;
    std::map<const Function*, Function*> functions;
    std::map<Graph*, std::unique_ptr<Graph>> graphs;
    std::map<Graph*, std::unique_ptr<Graph>> executables;
    std::string last_error;
    Counters counters;
    uint64_t next_stream = 1;
    uint64_t launches = 0;        // ever, the seeds of shuffled orders
    int64_t launches_left = -1;   // until the device is lost; -1 never
};

Driver& state();

// The context bound to this thread, which must not be lost.
Context& current_context();
Context* bound_context();
void bind_context(Context* context);
Context& context_of(int device);
// Fails with the sticky error of a lost context.
void check(const Context& context);
// Marks the context as lost.
void lose(Context& context, Result code, const std::string& message);

// Streams.
Stream& stream_of(Stream* handle);
void enqueue(Stream& stream, Task task);
// Runs what must have run, or, with LastFirst, all that can.
void synchronize(Stream& stream);
void synchronize(Context& context);
// As the legacy stream does, for synchronous copies: only with streams that block.
void synchronize_blocking(Context& context);
void synchronize(Event& event);
// One step of what the caller polls for.
void make_progress(Stream& stream);
void make_progress(Event& event);
void run_graph(const Graph& graph, Context& context);
// Calls that would wait are refused while a stream of the context captures; calls that are unsafe then, unless the
// capture is another thread's that asked for this.
void require_no_capture(const Context& context, const char* call);
void require_safe(const Context& context, const char* call);

// Memory.
// The allocation that holds this address or ends at it.
Allocation* find_allocation(DevicePointer address);
// The range must be memory of the context's device: at a call, or when queued work runs.
void check_range(DevicePointer address, uint64_t bytes, const Context& context, Result code, bool at_call);
bool is_pinned(const void* host, uint64_t bytes);
// An allocation behind whose end something wrote, null without.
const Allocation* find_overrun();
void release_memory(const Context& context);

// Runs the body of an exported function.
template <class Body>
int call(Body body) {
    std::lock_guard lock(state().mutex);
    try {
        body();
        return SUCCESS;
    } catch (const Error& error) {
        return error.code;
    } catch (const std::bad_alloc&) {
        return OUT_OF_MEMORY;
    }
}
// The same, after cuInit.
template <class Body>
int initialised(Body body) {
    return call([&] {
        require(state().initialised, NOT_INITIALIZED, "cuInit was not called");
        body();
    });
}
// The same, in the current context.
template <class Body>
int in_context(Body body) {
    return initialised([&] { body(current_context()); });
}

}  // namespace driver

#define EXPORTED extern "C" __attribute__((visibility("default")))
