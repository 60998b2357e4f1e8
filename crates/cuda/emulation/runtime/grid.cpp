#include "grid.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace emulation {

namespace {

std::map<std::string_view, Kernel>& table() {
    static auto* kernels = new std::map<std::string_view, Kernel>;
    return *kernels;
}

// Threads that wait for launches; the caller's thread is worker 0. The threads are never joined:
// they still wait when the process exits.
class Pool {
   public:
    static Pool& get() {
        static auto* pool = new Pool;
        return *pool;
    }

    // Calls `work` on up to `wanted` workers concurrently, and returns when all are done.
    void run(uint64_t wanted, const std::function<void(Worker&)>& work) {
        const unsigned helpers = unsigned(std::min<uint64_t>(wanted, workers_.size())) - 1;
        if (helpers > 0) {
            std::lock_guard lock(mutex_);
            work_ = &work;
            left_ = running_ = helpers;
            wake_.notify_all();
        }
        workers_[0]->scheduler = {};
        work(*workers_[0]);
        if (helpers > 0) {
            std::unique_lock lock(mutex_);
            done_.wait(lock, [&] { return running_ == 0; });
        }
    }

   private:
    Pool() {
        const unsigned count = std::max(1u, std::thread::hardware_concurrency());
        for (unsigned i = 0; i < count; i++) workers_.push_back(new Worker);
        for (unsigned i = 1; i < count; i++) std::thread([this, i] { serve(*workers_[i]); }).detach();
    }

    void serve(Worker& worker) {
        install_signal_stack();
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return left_ > 0; });
            left_--;
            const auto* work = work_;
            lock.unlock();
            (*work)(worker);
            lock.lock();
            if (--running_ == 0) done_.notify_one();
        }
    }

    std::vector<Worker*> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(Worker&)>* work_ = nullptr;
    unsigned left_ = 0, running_ = 0;
};

Dim3 block_index(const Dim3& grid, uint64_t i) {
    return {unsigned(i % grid.x), unsigned(i / grid.x % grid.y), unsigned(i / grid.x / grid.y)};
}

// Returns a block's own seed, so that its shuffled order does not depend on the worker that runs
// the block.
uint64_t block_seed(const Launch& launch, uint64_t i) { return Random{launch.seed ^ (i + 1) << 20}.next(); }

Failure run_independent(const Launch& launch, const Walk& walk) {
    const uint64_t blocks = launch.grid.count();
    std::atomic<uint64_t> taken = 0;
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Failure first;
    Pool::get().run(blocks, [&](Worker& worker) {
        Block block(launch, worker);
        Failure failure;
        for (uint64_t i; !failed && (i = taken++) < blocks;) {
            const uint64_t index = walk[i];
            block.start(block_index(launch.grid, index), block_seed(launch, index));
            if (block.resume() == Block::Status::Failed) {
                failure = block.failure();
                break;
            }
        }
        if (failure.fault == NO_FAULT) return;
        worker.fibers.abandon();
        failed = true;
        std::lock_guard lock(mutex);
        if (first.fault == NO_FAULT) first = failure;
    });
    return first;
}

// Checks that all waiting blocks name the same counter and round, and that the counter has the
// value that the previous rounds left. Returns a message on failure; otherwise advances the
// counter.
std::string check_grid_barrier(const std::vector<std::unique_ptr<Block>>& blocks) {
    const Thread& first = blocks[0]->at_grid();
    for (const auto& block : blocks) {
        const Thread& thread = block->at_grid();
        if (thread.grid_counter != first.grid_counter || thread.grid_round != first.grid_round) {
            return "grid_barrier: the blocks give different counters or rounds";
        }
    }
    const auto before = uint32_t(blocks.size()) * (first.grid_round - 1);
    if (*first.grid_counter != before) {
        return "grid_barrier: the counter is " + std::to_string(*first.grid_counter) + " before round " +
               std::to_string(first.grid_round) + ", which wants " + std::to_string(before);
    }
    *first.grid_counter = before + uint32_t(blocks.size());
    return "";
}

// Turns of a grid after which blocks that wait for each other are taken to wait for ever.
constexpr unsigned MOST_TURNS = 100'000;

// Runs all blocks interleaved on one thread, each up to its next grid barrier, or until it waits for another block.
Failure run_cooperative(const Launch& launch, Walk walk) {
    Failure failure;
    Pool::get().run(1, [&](Worker& worker) {
        Random random{launch.seed};
        const uint64_t count = launch.grid.count();
        std::vector<std::unique_ptr<Block>> blocks;
        for (uint64_t i = 0; i < count; i++) {
            blocks.push_back(std::make_unique<Block>(launch, worker));
            blocks.back()->start(block_index(launch.grid, i), block_seed(launch, i));
        }
        std::vector<bool> finished(count);
        for (unsigned turns = 1;; turns++) {
            uint64_t waiting = 0, spinning = 0;
            for (uint64_t i = 0; i < count && failure.fault == NO_FAULT; i++) {
                if (finished[walk[i]]) continue;
                Block& block = *blocks[walk[i]];
                const Block::Status status = block.resume();
                if (status == Block::Status::Failed) failure = block.failure();
                finished[walk[i]] = status == Block::Status::Finished;
                waiting += status == Block::Status::AtGrid;
                spinning += status == Block::Status::Spinning;
            }
            if (failure.fault != NO_FAULT || waiting + spinning == 0) break;
            std::string wrong = spinning > 0 ? turns < MOST_TURNS ? "" : "blocks wait for each other without end"
                                : waiting < count ? "grid_barrier not reached by all blocks: some have ended"
                                                  : check_grid_barrier(blocks);
            if (!wrong.empty()) {
                failure = {LAUNCH_FAILED, std::string("kernel ") + launch.kernel->name + ": " + wrong};
                break;
            }
            walk = Walk(launch.order, count, random);
        }
        if (failure.fault != NO_FAULT) worker.fibers.abandon();
    });
    return failure;
}

}  // namespace

void register_kernel(Kernel kernel) {
    const std::string_view name = kernel.name;
    if (!table().emplace(name, std::move(kernel)).second) {
        std::fprintf(stderr, "spirea emulation: two kernels are called %s\n", name.data());
        std::abort();
    }
}

const Kernel* find_kernel(std::string_view name) {
    const auto found = table().find(name);
    return found == table().end() ? nullptr : &found->second;
}

const std::vector<const Kernel*>& all_kernels() {
    static const auto* kernels = [] {
        auto* list = new std::vector<const Kernel*>;
        for (const auto& [name, kernel] : table()) list->push_back(&kernel);
        return list;
    }();
    return *kernels;
}

Failure run_grid(const Launch& launch) {
    install_fault_handlers();
    Random random{launch.seed};
    const Walk walk(launch.order, launch.grid.count(), random);
    return launch.cooperative ? run_cooperative(launch, walk) : run_independent(launch, walk);
}

}  // namespace emulation
