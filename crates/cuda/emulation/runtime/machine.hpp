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

// Bytes after an allocation that must keep their pattern. With AddressSanitizer there are none: it
// watches the end.
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

// Joint operation of a warp's lanes. `meet` gets the requests of the lanes in `mask`, indexed by
// lane, once all of these lanes have arrived. On an error it returns a message and sets
// `failing_lane` to the lane at fault.
struct WarpOperation {
    const char* name;
    const char* (*meet)(void* const* requests, uint32_t mask, unsigned* failing_lane);
};

enum class State : uint8_t { Fresh, Ready, Running, AtWarp, AtGroup, AtBlock, AtGrid, Spinning, Done };

// Pending copy_async, to be done at its copy_wait.
struct DeferredCopy {
    void* to;
    const void* from;
    unsigned group;
};

// Pending product of a warpgroup, to be computed at its warpgroup_wait: one lane's part. The
// product has 8 `width` columns.
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

    // Place where the thread waits, and the operation it waits for.
    Site site;
    const WarpOperation* operation = nullptr;
    uint32_t mask = 0;
    void* request = nullptr;
    uint32_t group = 0, group_threads = 0;
    uint32_t* grid_counter = nullptr;
    uint32_t grid_round = 0;

    std::vector<DeferredCopy> copies;
    unsigned groups = 0;
    std::vector<DeferredProduct> products;
    unsigned product_groups = 0;
};

// Block data that a kernel reads.
struct BlockView {
    Dim3 grid, shape, index;
    unsigned char* shared = nullptr;
    size_t shared_bytes = 0;
};

// CUDA thread that runs on this thread of the operating system; null outside of kernels. Kernels
// read it constantly, hence the initial-exec model: it takes 16 bytes of the space that the loader
// reserves for libraries loaded late.
extern __thread Thread* current __attribute__((tls_model("initial-exec")));
extern __thread const BlockView* view __attribute__((tls_model("initial-exec")));

// Error codes of the driver API that a kernel can cause.
enum Fault : int { NO_FAULT = 0, ILLEGAL_ADDRESS = 700, ILLEGAL_INSTRUCTION = 715, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719 };

// Ends the launch; the fibers of the block are abandoned.
[[noreturn]] void fail(Fault fault, const char* format, ...) __attribute__((format(printf, 2, 3)));

void meet_warp(const WarpOperation& operation, uint32_t mask, void* request, const Site& site);
void meet_group(uint32_t number, uint32_t threads, const Site& site);
void meet_block(const Site& site);
void meet_grid(uint32_t* counter, uint32_t round, const Site& site);
// Lets the other blocks run before a read that waits for them.
void spin();
void copy_begin(void* to, const void* from);
void copy_commit();
void copy_wait(unsigned groups_left);
void product_begin(const DeferredProduct& product);

// Request of MMA_U8U8 and MMA_COMMON_ONES: the fragments of a product.
struct Fragments {
    uint32_t* d;
    const uint32_t *a, *b;
};
extern const WarpOperation MMA_U8U8;
extern const WarpOperation MMA_COMMON_ONES;

// Request of LOAD_MATRICES: the address of the lane's row, and the destination of its four words,
// one of each matrix.
struct MatrixRows {
    const void* row;
    uint32_t* words;
};
// Request of FINISH_PRODUCTS: the lane waits for all groups of its products except the last
// `groups_left`.
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
