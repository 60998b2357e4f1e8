// A block of CUDA threads on one thread of the operating system.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "machine.hpp"

namespace emulation {

// In which order threads of a block, and blocks of a grid, run where nothing orders them.
enum class ThreadOrder { Forward, Reversed, Shuffled };

struct Launch {
    const Kernel* kernel = nullptr;
    Dim3 grid, shape;
    size_t shared_bytes = 0;
    bool cooperative = false;
    ThreadOrder order = ThreadOrder::Forward;
    uint64_t seed = 0;
    void** arguments = nullptr;
};

// What ended a launch early.
struct Failure {
    Fault fault = NO_FAULT;
    std::string message;
};

// A pseudorandom sequence (SplitMix64).
struct Random {
    uint64_t state;
    uint64_t next();
};

// 0 to count - 1, each once, in one of the orders: a stride and a first.
class Walk {
   public:
    Walk() = default;
    Walk(ThreadOrder order, uint64_t count, Random& random);
    // For i and counts below 2^32.
    uint64_t operator[](uint64_t i) const { return (i * stride_ + first_) % count_; }

   private:
    uint64_t stride_ = 1, first_ = 0, count_ = 1;
};

// The fibers of one worker, and its own stack to return to.
struct Worker {
    FiberCache fibers;
    Fiber scheduler;
    Worker();
};

class Block {
   public:
    enum class Status { Finished, AtGrid, Failed };

    // For a launch; then `start` and `resume` for each block of it.
    Block(const Launch& launch, Worker& worker);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void start(Dim3 index, uint64_t seed);
    // Runs until the end or a grid barrier.
    Status resume();
    Failure failure() const { return failure_; }

    // The thread that waits at the grid barrier, for the grid to look at.
    const Thread& at_grid() const { return threads_[0]; }

    // Called on fibers.
    void suspend();
    [[noreturn]] void stop(Fault fault, std::string message);
    bool cooperative() const { return launch_.cooperative; }

   private:
    friend void run_fiber();

    Thread* next();
    void enter_warp();
    void begin_pass();
    void begin_phase();
    bool meet_in_warp();
    bool complete(const Thread& thread);
    bool meet_in_block();
    void release();
    void explain(const Thread& stuck);
    void set_failure(const Thread& thread, Fault fault, std::string message);
    Fiber& enter(Thread* thread);

    const Launch& launch_;
    Worker& worker_;
    BlockView view_;
    Random random_{0};
    Failure failure_;

    std::vector<Thread> threads_;
    unsigned warps_ = 0;
    Walk warp_order_;
    void* requests_[WARP] = {};

    // The pass through a warp: lane = (stride * position + shift) mod 32.
    unsigned warp_ = 0, first_ = 0, lanes_ = 0, position_ = 0, stride_ = 1, shift_ = 0;
    unsigned char* shared_ = nullptr;
};

// Sets up the return of faults of the processor (bad addresses, traps) as failures, once.
void install_fault_handlers();
// What a thread that runs blocks for ever calls first.
void install_signal_stack();

}  // namespace emulation
