// State of the driver, and helpers for all of its functions. One lock guards the whole state;
// kernels run under this lock.
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
    UNSUPPORTED_PTX_VERSION = 222,
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

// Exception that ends a call of the driver with this code.
struct Error {
    Result code;
};
// Throws an Error and stores a message for `spirea_emulation_last_error`.
[[noreturn]] void refuse(Result code, const std::string& message);
inline void require(bool condition, Result code, const char* message) {
    if (!condition) refuse(code, message);
}

// Order in which queued work runs; see `StreamOrder` in Rust.
enum class StreamOrder { Eager, Lazy, LastFirst };

// Returns the number in a variable of the environment; `usual` if the variable is not set.
int setting(const char* variable, int usual);

struct Configuration {
    int devices = 1;
    uint64_t memory = uint64_t(4) << 30;
    emulation::ThreadOrder thread_order = static_cast<emulation::ThreadOrder>(setting("SPIREA_EMULATION_ORDER", 0));
    StreamOrder stream_order = StreamOrder::Eager;
    int version = 13000;
    int compute = setting("SPIREA_EMULATION_COMPUTE", 90);
    bool peers = true;
    int processors = 132;
    uint64_t seed = 1;
};

// Limits of a multiprocessor and of its blocks (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
// Shared memory is in bytes.
struct Limits {
    int shared_of_block, shared, shared_reserved, threads, blocks;
};

// Returns the limits of a compute capability, such as 86; those of 9.0 if it is not known.
Limits limits(int compute);

// Memory pool of stream-ordered allocations. Freed memory stays in the pool, up to its threshold.
struct Pool {
    uint64_t release_threshold = 0;
    uint64_t reserved = 0;
    // High marks since their last reset.
    uint64_t most_reserved = 0, most_used = 0;
    // Other devices that may access the memory.
    std::set<int> visitors;
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
    bool freeing = false;              // true once its free is queued
    bool registered = false;           // the caller's memory, registered as pinned
    bool pooled = false;               // from the pool of its device
};

// Returns true if a context's device can access an allocation.
bool can_access(const Context& context, const Allocation& allocation);

struct Stream;
struct Graph;

// Event. Records are numbered; a wait is for the record that was the latest at the time of the
// call.
struct Event {
    const Context* context = nullptr;
    bool timed = true;
    uint64_t recorded = 0, completed = 0;
    double milliseconds = 0;
    // If the event was recorded in a capture: the graph, and the nodes that the event stands for.
    Graph* captured = nullptr;
    std::set<size_t> nodes;
};

// Asynchronous operation.
struct Task {
    enum class Kind { Work, Record, Wait };
    Kind kind = Kind::Work;
    std::function<void(Context&)> work = {};  // throws Error
    std::shared_ptr<Event> event = nullptr;
    uint64_t number = 0;
    // Pinned memory that the task will read or write.
    DevicePointer pinned = 0;
};

// Work of a captured stream: tasks, each with the earlier tasks that it depends on.
struct Graph {
    struct Node {
        Task task;
        std::set<size_t> after;
    };
    const Context* context = nullptr;
    Stream* origin = nullptr;
    std::vector<Node> nodes;
    bool invalid = false;
    // Scope in which unsafe calls are refused during the capture: only this thread if `of_thread`,
    // else all threads.
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
    // During a capture: the graph, and the nodes that the stream's next node depends on.
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

// Counters since the last reset.
struct Counters {
    std::map<std::string, uint64_t, std::less<>> launches;
    uint64_t to_device = 0, to_host = 0, on_device = 0, between_devices = 0, staged = 0;
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
    uint64_t launches = 0;        // never reset; seeds the shuffled orders
    int64_t launches_left = -1;   // until the device is lost; -1 for never
};

Driver& state();

// Returns the context bound to this thread; fails if there is none or if it is lost.
Context& current_context();
Context* bound_context();
void bind_context(Context* context);
Context& context_of(int device);
// Fails if the context is lost, with its sticky error, or if it was released.
void check(const Context& context);
// Marks the context as lost.
void lose(Context& context, Result code, const std::string& message);

// Streams.
Stream& stream_of(Stream* handle);
void enqueue(Stream& stream, Task task);
// Runs the work that must be done by now, or, with LastFirst, all work that can run.
void synchronize(Stream& stream);
void synchronize(Context& context);
// Synchronizes blocking streams only, as the legacy stream does for synchronous copies.
void synchronize_blocking(Context& context);
void synchronize(Event& event);
// Runs one step of the work that the caller polls for.
void make_progress(Stream& stream);
void make_progress(Event& event);
void run_graph(const Graph& graph, Context& context);
// `require_no_capture` is for calls that would wait: it refuses them while a stream of the context
// captures. `require_safe` is for calls that are unsafe during a capture: it refuses them too,
// unless the capture was begun by another thread and covers only that thread's calls.
void require_no_capture(const Context& context, const char* call);
void require_safe(const Context& context, const char* call);

// Memory.
// Returns the allocation that contains this address or ends at it; null if there is none.
Allocation* find_allocation(DevicePointer address);
// Fails unless the range is memory of the context's device. Called both at a call (`at_call`) and
// when queued work runs.
void check_range(DevicePointer address, uint64_t bytes, const Context& context, Result code, bool at_call);
bool is_pinned(const void* host, uint64_t bytes);
// Returns an allocation with a write past its end; null if there is none.
const Allocation* find_overrun();
void release_memory(const Context& context);

// Runs the body of an exported function and returns its result code.
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
// Like `call`, but fails before cuInit.
template <class Body>
int initialised(Body body) {
    return call([&] {
        require(state().initialised, NOT_INITIALIZED, "cuInit was not called");
        body();
    });
}
// Like `initialised`, with the current context.
template <class Body>
int in_context(Body body) {
    return initialised([&] { body(current_context()); });
}

}  // namespace driver

#define EXPORTED extern "C" __attribute__((visibility("default")))
