// Threads run one at a time, each until it must wait. The thread that stops chooses the next thread
// and switches to it directly. A thread that has ended continues as the next fresh thread on the
// same stack, so kernels without barriers never switch stacks.
#include "block.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace emulation {

__thread Thread* current;
__thread const BlockView* view;

namespace {

constexpr unsigned char POISON = 0xCD;  // shared memory before it is written
constexpr unsigned char BEHIND = 0x5C;  // memory after the kernel's own
constexpr size_t SHARED_ALIGNMENT = 1024;
constexpr unsigned GROUP_BARRIERS = 16;  // number 0 is the whole block's

std::string place(const Site& site) {
    const char* slash = std::strrchr(site.file_name(), '/');
    return std::string(slash ? slash + 1 : site.file_name()) + ":" + std::to_string(site.line());
}

bool same(const Site& a, const Site& b) {
    const char *one = a.file_name(), *other = b.file_name();
    return a.line() == b.line() && (one == other || std::strcmp(one, other) == 0);
}

}  // namespace

void mark_tail(unsigned char* end) { std::memset(end, BEHIND, TAIL); }

bool is_tail_intact(const unsigned char* end) {
    return std::all_of(end, end + TAIL, [](unsigned char byte) { return byte == BEHIND; });
}

uint64_t Random::next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

Walk::Walk(ThreadOrder order, uint64_t count, Random& random) : count_(count) {
    if (order == ThreadOrder::Reversed) stride_ = first_ = count - 1;
    if (order == ThreadOrder::Shuffled) {
        do stride_ = random.next() % count;
        while (std::gcd(stride_, count) != 1);
        first_ = random.next() % count;
    }
}

// Body of a fiber: runs threads from start to end, forever.
void run_fiber() {
    entered_fiber();
    for (;;) {
        Thread& thread = *current;
        Block& block = *thread.block;
        Fiber& fiber = *thread.fiber;
        const Launch& launch = block.launch_;
        launch.kernel->call(launch.kernel->function, launch.arguments);
        thread.state = State::Done;

        Thread* next = block.next();
        if (next && next->state == State::Fresh) {
            next->state = State::Running;
            next->fiber = &fiber;
            current = next;
            continue;
        }
        block.worker_.fibers.park(&fiber);
        switch_fiber(fiber, block.enter(next));
    }
}

Worker::Worker() : fibers(run_fiber) {}

Block::Block(const Launch& launch, Worker& worker) : launch_(launch), worker_(worker) {
    view_.grid = launch.grid;
    view_.shape = launch.shape;
    view_.shared_bytes = launch.shared_bytes;
    // Exactly the launch's bytes, so that AddressSanitizer sees an access to the first byte after
    // them.
    void* shared = nullptr;
    if (posix_memalign(&shared, SHARED_ALIGNMENT, launch.shared_bytes + TAIL) != 0) throw std::bad_alloc();
    view_.shared = shared_ = static_cast<unsigned char*>(shared);
    mark_tail(shared_ + launch.shared_bytes);

    threads_.resize(launch.shape.count());
    warps_ = unsigned(threads_.size() + WARP - 1) / WARP;
    for (unsigned i = 0; i < threads_.size(); i++) {
        Thread& thread = threads_[i];
        thread.linear = i;
        thread.index = {i % launch.shape.x, i / launch.shape.x % launch.shape.y, i / launch.shape.x / launch.shape.y};
        thread.block = this;
    }
}

Block::~Block() { std::free(shared_); }

void Block::start(Dim3 index, uint64_t seed) {
    view_.index = index;
    random_.state = seed;
    failure_ = {};
    std::memset(shared_, POISON, view_.shared_bytes);
    for (Thread& thread : threads_) {
        thread.state = State::Fresh;
        thread.copies.clear();
        thread.groups = 0;
        thread.products.clear();
        thread.product_groups = 0;
    }
    begin_phase();
}

bool Block::spins() const {
    return std::any_of(threads_.begin(), threads_.end(), [](const Thread& it) { return it.state == State::Spinning; });
}

Block::Status Block::resume() {
    if (threads_[0].state == State::AtGrid) release();
    if (spins()) {
        for (Thread& thread : threads_) {
            if (thread.state == State::Spinning) thread.state = State::Ready;
        }
        begin_phase();
    }
    emulation::view = &view_;
    if (Thread* first = next()) switch_fiber(worker_.scheduler, enter(first));
    current = nullptr;
    emulation::view = nullptr;
    if (failure_.fault == NO_FAULT && !is_tail_intact(shared_ + view_.shared_bytes)) {
        set_failure(threads_[0], ILLEGAL_ADDRESS, "a thread of the block wrote behind its shared memory");
    }
    if (failure_.fault != NO_FAULT) return Status::Failed;
    if (spins()) return Status::Spinning;
    return threads_[0].state == State::AtGrid ? Status::AtGrid : Status::Finished;
}

// Returns the fiber to switch to for `thread`; the scheduler's fiber if `thread` is null.
Fiber& Block::enter(Thread* thread) {
    if (!thread) return worker_.scheduler;
    if (thread->state == State::Fresh) thread->fiber = worker_.fibers.take();
    thread->state = State::Running;
    current = thread;
    return *thread->fiber;
}

void Block::suspend() {
    Thread& me = *current;
    Thread* next = this->next();
    if (next == &me) {
        me.state = State::Running;
        return;
    }
    switch_fiber(*me.fiber, enter(next));
}

void Block::begin_phase() {
    warp_order_ = Walk(launch_.order, warps_, random_);
    warp_ = 0;
    enter_warp();
}

void Block::enter_warp() {
    first_ = unsigned(warp_order_[warp_]) * WARP;
    lanes_ = std::min(WARP, unsigned(threads_.size()) - first_);
    begin_pass();
}

void Block::begin_pass() {
    position_ = 0;
    if (launch_.order == ThreadOrder::Reversed) stride_ = shift_ = WARP - 1;
    if (launch_.order == ThreadOrder::Shuffled) {
        const uint64_t bits = random_.next();
        stride_ = unsigned(bits >> 32) | 1;
        shift_ = unsigned(bits);
    }
}

// Returns the next thread to run; null if the block has ended, has failed or waits for the grid. A
// warp runs until all of its lanes wait at the block's barrier.
Thread* Block::next() {
    for (;;) {
        while (position_ < WARP) {
            const unsigned lane = (position_++ * stride_ + shift_) % WARP;
            if (lane >= lanes_) continue;
            Thread& thread = threads_[first_ + lane];
            if (thread.state == State::Fresh || thread.state == State::Ready) return &thread;
        }
        if (meet_in_warp()) {
            begin_pass();
        } else if (failure_.fault != NO_FAULT) {
            return nullptr;
        } else if (++warp_ < warps_) {
            enter_warp();
        } else if (!meet_in_groups() && (failure_.fault != NO_FAULT || !meet_in_block())) {
            return nullptr;
        }
    }
}

// Returns true if all lanes that `thread` waits for have arrived; fills `requests_`.
bool Block::complete(const Thread& thread) {
    for (uint32_t left = thread.mask; left != 0; left &= left - 1) {
        const auto lane = unsigned(__builtin_ctz(left));
        if (lane >= lanes_) return false;
        const Thread& other = threads_[first_ + lane];
        if (other.state != State::AtWarp || other.operation != thread.operation || other.mask != thread.mask ||
            !same(other.site, thread.site)) {
            return false;
        }
        requests_[lane] = other.request;
    }
    return true;
}

// Executes the warp operations for which all lanes have arrived. Returns false if there is none, or
// if one fails.
bool Block::meet_in_warp() {
    const Thread* stuck = nullptr;
    bool met = false;
    for (unsigned lane = 0; lane < lanes_; lane++) {
        const Thread& thread = threads_[first_ + lane];
        if (thread.state != State::AtWarp) continue;
        if (!complete(thread)) {
            stuck = &thread;
            continue;
        }
        unsigned failing = lane;
        if (const char* message = thread.operation->meet(requests_, thread.mask, &failing)) {
            const Thread& culprit = threads_[first_ + failing];
            set_failure(culprit, LAUNCH_FAILED,
                        std::string(thread.operation->name) + " at " + place(thread.site) + ": " + message);
            return false;
        }
        for (uint32_t left = thread.mask; left != 0; left &= left - 1) {
            threads_[first_ + unsigned(__builtin_ctz(left))].state = State::Ready;
        }
        met = true;
    }
    if (!met && stuck && !spins()) explain(*stuck);
    return met;
}

// Reports why the warp cannot continue.
void Block::explain(const Thread& stuck) {
    std::string why = "divergence";
    for (uint32_t left = stuck.mask; left != 0; left &= left - 1) {
        const auto lane = unsigned(__builtin_ctz(left));
        const std::string name = "lane " + std::to_string(lane);
        if (lane >= lanes_) {
            why = name + " of its mask does not exist";
            break;
        }
        const Thread& other = threads_[first_ + lane];
        if (other.state == State::Done) {
            why = name + " of its mask has exited";
        } else if (other.state == State::AtGroup) {
            why = name + " waits at the group barrier at " + place(other.site);
        } else if (other.state == State::AtBlock) {
            why = name + " waits at the block barrier at " + place(other.site);
        } else if (other.state == State::AtGrid) {
            why = name + " waits at the grid barrier at " + place(other.site);
        } else if (other.operation != stuck.operation) {
            why = name + " waits in another operation, " + other.operation->name + " at " + place(other.site);
        } else if (other.mask != stuck.mask) {
            why = name + " has another mask";
        } else if (!same(other.site, stuck.site)) {
            why = name + " waits at " + place(other.site);
        } else {
            continue;
        }
        break;
    }
    set_failure(stuck, LAUNCH_FAILED,
                std::string("divergent ") + stuck.operation->name + " at " + place(stuck.site) + ": " + why);
}

// Handles the state in which no warp can continue. Returns true if group barriers are complete and
// their threads run again.
bool Block::meet_in_groups() {
    unsigned waiting[GROUP_BARRIERS] = {};
    const Thread* of[GROUP_BARRIERS] = {};
    for (const Thread& thread : threads_) {
        if (thread.state != State::AtGroup) continue;
        const Thread*& first = of[thread.group];
        if (first == nullptr) first = &thread;
        if (++waiting[thread.group] > first->group_threads || thread.group_threads != first->group_threads) {
            set_failure(thread, LAUNCH_FAILED,
                        "group_barrier at " + place(thread.site) + ": barrier " + std::to_string(thread.group) +
                            " has other threads, or another number of them, at " + place(first->site));
            return false;
        }
    }
    bool met = false;
    for (Thread& thread : threads_) {
        if (thread.state != State::AtGroup || waiting[thread.group] != of[thread.group]->group_threads) continue;
        thread.state = State::Ready;
        met = true;
    }
    if (met) begin_phase();
    return met;
}

// Handles the state in which no warp can continue, and no group barrier is complete. Returns true if
// a block barrier is complete and the threads run again.
bool Block::meet_in_block() {
    if (spins()) return false;
    const Thread& first = threads_[0];
    for (const Thread& other : threads_) {
        if (other.state == first.state && (first.state == State::Done || same(first.site, other.site))) continue;
        const Thread& waiting = first.state == State::Done ? other : first;
        const Thread& absent = first.state == State::Done ? first : other;
        const char* kind = waiting.state == State::AtGrid    ? "grid_barrier"
                           : waiting.state == State::AtGroup ? "group_barrier"
                                                             : "block_barrier";
        const std::string where = absent.state == State::Done ? " has exited" : " waits at " + place(absent.site);
        set_failure(waiting, LAUNCH_FAILED,
                    std::string(kind) + " at " + place(waiting.site) + " not reached by all threads: thread " +
                        std::to_string(absent.linear) + where);
        return false;
    }
    if (first.state == State::AtGroup) {
        set_failure(first, LAUNCH_FAILED, "group_barrier at " + place(first.site) + " not reached by all its threads");
    }
    if (first.state != State::AtBlock) return false;
    release();
    return true;
}

void Block::release() {
    for (Thread& thread : threads_) thread.state = State::Ready;
    begin_phase();
}

void Block::set_failure(const Thread& thread, Fault fault, std::string message) {
    char where[160];
    std::snprintf(where, sizeof where, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", launch_.kernel->name,
                  view_.index.x, view_.index.y, view_.index.z, thread.index.x, thread.index.y, thread.index.z);
    failure_ = {fault, where + std::move(message)};
}

void Block::stop(Fault fault, std::string message) {
    set_failure(*current, fault, std::move(message));
    switch_fiber(*current->fiber, worker_.scheduler);
    __builtin_unreachable();
}

void fail(Fault fault, const char* format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    current->block->stop(fault, message);
}

void meet_warp(const WarpOperation& operation, uint32_t mask, void* request, const Site& site) {
    Thread& me = *current;
    if ((mask >> me.linear % WARP & 1) == 0) {
        fail(LAUNCH_FAILED, "%s at %s: the lane is not in its own mask", operation.name, place(site).c_str());
    }
    me.operation = &operation;
    me.mask = mask;
    me.request = request;
    me.site = site;
    me.state = State::AtWarp;
    me.block->suspend();
}

void meet_group(uint32_t number, uint32_t threads, const Site& site) {
    Thread& me = *current;
    if (number == 0 || number >= GROUP_BARRIERS || threads % WARP != 0) {
        fail(LAUNCH_FAILED, "group_barrier at %s: number %u, %u threads", place(site).c_str(), number, threads);
    }
    me.group = number;
    me.group_threads = threads;
    me.site = site;
    me.state = State::AtGroup;
    me.block->suspend();
}

void spin() {
    Thread& me = *current;
    if (!me.block->cooperative()) fail(LAUNCH_FAILED, "a read that waits for other blocks in a launch that is not cooperative");
    me.state = State::Spinning;
    me.block->suspend();
}

void meet_block(const Site& site) {
    Thread& me = *current;
    me.site = site;
    me.state = State::AtBlock;
    me.block->suspend();
}

void meet_grid(uint32_t* counter, uint32_t round, const Site& site) {
    Thread& me = *current;
    if (!me.block->cooperative()) {
        fail(LAUNCH_FAILED, "grid_barrier at %s in a launch that is not cooperative", place(site).c_str());
    }
    me.grid_counter = counter;
    me.grid_round = round;
    me.site = site;
    me.state = State::AtGrid;
    me.block->suspend();
}

}  // namespace emulation
