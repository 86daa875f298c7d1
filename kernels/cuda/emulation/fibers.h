// A block's threads as fibers of the thread that launches: they take turns, and only a barrier ends a turn. Every other launch
// they run in the opposite order, so that a thread that reads before a missing barrier reads what is not yet written.
#pragma once
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tandem::cuda::emulation {

class Fibers {
 public:
  // Calls job(w) for each w below `count`, each in a fiber of its own, and returns when all have ended.
  void run(int count, const std::function<void(int)>& job) {
    while (std::ssize(fibers_) < count) fibers_.push_back(std::make_unique<Fiber>());
    count_ = running_ = count;
    job_ = &job;
    step_ = -step_;
    for (int w = 0; w < count; ++w) {
      Fiber& fiber = *fibers_[static_cast<std::size_t>(w)];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = stack_bytes;
      fiber.context.uc_link = nullptr;
      fiber.ended = false;
      makecontext(&fiber.context, &Fibers::start, 0);
    }
    Fibers* const before = current_;
    current_ = this;
    turn_ = step_ > 0 ? 0 : count - 1;
    swapcontext(&launcher_, &fibers_[static_cast<std::size_t>(turn_)]->context);
    current_ = before;
  }
  // The next fiber's turn.
  static void yield() { current_->give_way(); }

 private:
  static constexpr std::size_t stack_bytes = 256 << 10;  // what nobody writes to takes no memory
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    bool ended = false;
  };

  static void start() {
    Fibers& all = *current_;
    (*all.job_)(all.turn_);
    all.fibers_[static_cast<std::size_t>(all.turn_)]->ended = true;
    if (--all.running_ == 0) setcontext(&all.launcher_);
    all.give_way();
  }
  void give_way() {
    Fiber& own = *fibers_[static_cast<std::size_t>(turn_)];
    do turn_ = (turn_ + step_ + count_) % count_;
    while (fibers_[static_cast<std::size_t>(turn_)]->ended);
    Fiber& next = *fibers_[static_cast<std::size_t>(turn_)];
    if (&next != &own) swapcontext(&own.context, &next.context);
  }

  static inline thread_local Fibers* current_ = nullptr;
  ucontext_t launcher_{};
  const std::function<void(int)>* job_ = nullptr;
  int count_ = 0, running_ = 0, turn_ = 0, step_ = -1;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

class FiberBarrier {
 public:
  explicit FiberBarrier(int threads) : threads_(threads), missing_(threads) {}
  void arrive_and_wait() {
    const unsigned turn = turn_;
    if (--missing_ == 0) {
      missing_ = threads_;
      ++turn_;
      return;
    }
    while (turn_ == turn) Fibers::yield();
  }

 private:
  const int threads_;
  int missing_;
  unsigned turn_ = 0;
};

}  // namespace tandem::cuda::emulation
