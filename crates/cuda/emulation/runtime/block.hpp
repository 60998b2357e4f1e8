// A block of CUDA threads on one thread of the operating system.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "machine.hpp"

namespace emulation {

// Order of a block's threads and of a grid's blocks where no barrier orders them.
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

// Reason why a launch ended early.
struct Failure {
    Fault fault = NO_FAULT;
    std::string message;
};

// A pseudorandom sequence (SplitMix64).
struct Random {
    uint64_t state;
    uint64_t next();
};

// Permutation of 0 to count - 1 in one of the orders, as a first element and a stride.
class Walk {
   public:
    Walk() = default;
    Walk(ThreadOrder order, uint64_t count, Random& random);
    // Both i and the count must be below 2^32.
    uint64_t operator[](uint64_t i) const { return (i * stride_ + first_) % count_; }

   private:
    uint64_t stride_ = 1, first_ = 0, count_ = 1;
};

// Fibers of one worker, and the worker's own stack, to which they return.
struct Worker {
    FiberCache fibers;
    Fiber scheduler;
    Worker();
};

class Block {
   public:
    enum class Status { Finished, AtGrid, Spinning, Failed };

    // Prepares blocks of a launch: call `start` and `resume` for each of them.
    Block(const Launch& launch, Worker& worker);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void start(Dim3 index, uint64_t seed);
    // Runs the block until its end or a grid barrier, or until threads wait for another block.
    Status resume();
    Failure failure() const { return failure_; }

    // Thread that waits at the grid barrier, for the grid's checks.
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
    bool meet_in_groups();
    bool meet_in_block();
    void release();
    bool spins() const;
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

    // Current pass through a warp: lane = (stride * position + shift) mod 32.
    unsigned warp_ = 0, first_ = 0, lanes_ = 0, position_ = 0, stride_ = 1, shift_ = 0;
    unsigned char* shared_ = nullptr;
};

// Installs, once, the handlers that turn processor faults (bad addresses, traps) into failures.
void install_fault_handlers();
// Installs an alternate signal stack; every thread that runs blocks forever calls it first.
void install_signal_stack();

}  // namespace emulation
