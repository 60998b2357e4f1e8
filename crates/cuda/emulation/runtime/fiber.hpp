// Fibers: stacks that one thread of the operating system switches between.
#pragma once

#include <cstddef>
#include <vector>

namespace emulation {

// A stack and where it stopped. The stack of the thread that schedules is one too, with `low` null.
struct Fiber {
    void* stopped_at = nullptr;
    unsigned char* low = nullptr;
    size_t bytes = 0;
    void* shadow = nullptr;  // of AddressSanitizer
};

// Stops `from` where it is and goes on with `to`.
void switch_fiber(Fiber& from, Fiber& to);
// To be called first by a fiber's body.
void entered_fiber();

// The fibers of one worker, kept from launch to launch: a stack touched once costs no page fault again.
class FiberCache {
   public:
    // A fiber that will start with `body`, or one that `body` has parked.
    Fiber* take();
    void park(Fiber* fiber) { parked_.push_back(fiber); }
    // Makes all fibers fresh: what they ran is forgotten.
    void abandon();

    explicit FiberCache(void (*body)()) : body_(body) {}

   private:
    void restart(Fiber& fiber) const;
    void grow();

    void (*body_)();
    std::vector<Fiber*> all_, parked_;
};

}  // namespace emulation
