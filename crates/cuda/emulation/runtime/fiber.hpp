// Fibers: stacks that one thread of the operating system switches between.
#pragma once

#include <cstddef>
#include <vector>

namespace emulation {

// Stack, and the point where it stopped. The scheduling thread's own stack is a Fiber too, with
// `low` null.
struct Fiber {
    void* stopped_at = nullptr;
    unsigned char* low = nullptr;
    size_t bytes = 0;
    void* shadow = nullptr;  // of AddressSanitizer
};

// Suspends `from` and resumes `to`.
void switch_fiber(Fiber& from, Fiber& to);
// Tells AddressSanitizer that a fiber has started; a fiber's body must call it first.
void entered_fiber();

// Fibers of one worker, kept between launches, so that a stack's page faults happen only once.
class FiberCache {
   public:
    // Returns a fiber that will start with `body`, or a fiber that `body` has parked.
    Fiber* take();
    void park(Fiber* fiber) { parked_.push_back(fiber); }
    // Resets all fibers and forgets the work that they were running.
    void abandon();

    explicit FiberCache(void (*body)()) : body_(body) {}

   private:
    void restart(Fiber& fiber) const;
    void grow();

    void (*body_)();
    std::vector<Fiber*> all_, parked_;
};

}  // namespace emulation
