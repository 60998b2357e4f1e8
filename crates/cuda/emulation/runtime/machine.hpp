// The machine that kernels run on: threads, the places where they meet, and the table of kernels. Shared by the
// kernels' header and the runtime; a kernel's own translation unit sees nothing else of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace emulation {

constexpr unsigned WARP = 32;

// Bytes behind an allocation that must keep their pattern, where AddressSanitizer does not watch its end.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t TAIL = 0;
#else
constexpr size_t TAIL = 64;
#endif
void mark_tail(unsigned char* end);
bool is_tail_intact(const unsigned char* end);

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
    uint64_t count() const { return uint64_t(x) * y * z; }
};

using Site = std::source_location;

// What the lanes of a warp do together: `meet` gets the requests of the lanes in `mask`, indexed by lane, once all
// have come. `failing_lane` is the lane whose fault it is where `meet` returns a text.
struct WarpOperation {
    const char* name;
    const char* (*meet)(void* const* requests, uint32_t mask, unsigned* failing_lane);
};

enum class State : uint8_t { Fresh, Ready, Running, AtWarp, AtBlock, AtGrid, Done };

// A copy_async that waits for its copy_wait.
struct DeferredCopy {
    void* to;
    const void* from;
    unsigned group;
};

// A warpgroup's product that waits for its warpgroup_wait: what one lane of a warp has of it, with 8 `width` columns.
struct DeferredProduct {
    uint32_t* d;
    const uint32_t* a;
    uint64_t columns;
    unsigned width, group;
};

struct Fiber;
class Block;

// One CUDA thread.
struct Thread {
    Dim3 index;
    unsigned linear = 0;
    State state = State::Fresh;
    Block* block = nullptr;
    Fiber* fiber = nullptr;

    // Where it waits, and for what.
    Site site;
    const WarpOperation* operation = nullptr;
    uint32_t mask = 0;
    void* request = nullptr;
    uint32_t* grid_counter = nullptr;
    uint32_t grid_round = 0;

    std::vector<DeferredCopy> copies;
    unsigned groups = 0;
    std::vector<DeferredProduct> products;
    unsigned product_groups = 0;
};

// What a kernel reads of its block.
struct BlockView {
    Dim3 grid, shape, index;
    unsigned char* shared = nullptr;
    size_t shared_bytes = 0;
};

// The thread that runs on this thread of the operating system, null outside of kernels. Initial-exec, because kernels
// read it at every turn: 16 bytes of the space that the loader reserves for libraries loaded late.
extern __thread Thread* current __attribute__((tls_model("initial-exec")));
extern __thread const BlockView* view __attribute__((tls_model("initial-exec")));

// The error codes of the driver API that a kernel can cause.
enum Fault : int { NO_FAULT = 0, ILLEGAL_ADDRESS = 700, ILLEGAL_INSTRUCTION = 715, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719 };

// Ends the launch; the fibers of the block are abandoned.
[[noreturn]] void fail(Fault fault, const char* format, ...) __attribute__((format(printf, 2, 3)));

void meet_warp(const WarpOperation& operation, uint32_t mask, void* request, const Site& site);
void meet_block(const Site& site);
void meet_grid(uint32_t* counter, uint32_t round, const Site& site);
void copy_begin(void* to, const void* from);
void copy_commit();
void copy_wait(unsigned groups_left);
void product_begin(const DeferredProduct& product);

// A product of fragments; the request is a `Fragments`.
struct Fragments {
    uint32_t* d;
    const uint32_t *a, *b;
};
extern const WarpOperation MMA_U8U8;

// Where a lane's row of a matrix lies, and its four words of the four matrices.
struct MatrixRows {
    const void* row;
    uint32_t* words;
};
// A lane that waits for all groups of its products but the last `groups_left`.
struct FinishProducts {
    Thread* thread;
    unsigned groups_left;
};
extern const WarpOperation LOAD_MATRICES, FINISH_PRODUCTS;

// One parameter of a kernel.
struct Parameter {
    uint32_t bytes;
    bool is_pointer;
};

// A kernel as `KERNEL` declares it.
struct Kernel {
    const char* name;
    unsigned max_threads, min_blocks;
    void (*function)();
    void (*call)(void (*function)(), void** arguments);
    std::vector<Parameter> parameters;
};

void register_kernel(Kernel kernel);

// Registers a kernel of any signature when the library is loaded.
struct Registration {
    template <class... P>
    Registration(const char* name, unsigned max_threads, unsigned min_blocks, void (*function)(P...)) {
        static_assert((std::is_trivially_copyable_v<P> && ...), "the driver copies arguments as bytes");
        register_kernel({name, max_threads, min_blocks, reinterpret_cast<void (*)()>(function),
                         [](void (*erased)(), void** arguments) {
                             call(reinterpret_cast<void (*)(P...)>(erased), arguments,
                                  std::index_sequence_for<P...>());
                         },
                         {Parameter{uint32_t(sizeof(P)), std::is_pointer_v<P>}...}});
    }

   private:
    template <class... P, size_t... I>
    static void call(void (*function)(P...), [[maybe_unused]] void** arguments, std::index_sequence<I...>) {
        function(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
    }
};

}  // namespace emulation
