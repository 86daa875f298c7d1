#include "runtime/workers.h"

#include <utility>

#include "kernels/wait.h"

namespace tandem {

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown failure";
  }
}

Workers::Workers(int workers, int threads) : spins_(spins_for(threads + 1)) {
  for (int w = 0; w < workers; ++w) threads_.emplace_back([this, w] { work(w); });
}

Workers::~Workers() {
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  wake_all(epoch_);
  for (std::thread& t : threads_) t.join();
}

Workers::Failure Workers::run_call(const Call& call) {
  call_ = call;
  failing_.store(false, std::memory_order_relaxed);
  running_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  const std::uint32_t before = finished_.load(std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  wake_all(epoch_);
  wait_for_change(finished_, before, spins_, 0);
  return failing_.load(std::memory_order_acquire) ? std::exchange(failure_, {}) : Failure{};
}

void Workers::work(int worker) {
  for (std::uint32_t epoch = 0;; ++epoch) {
    wait_for_change(epoch_, epoch, spins_, 0);
    if (stopping_) return;
    try {
      call_.job(call_.context, worker);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (!failing_.exchange(true)) failure_ = {worker, error};
      call_.failed(call_.context, worker, error);
    }
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      finished_.fetch_add(1, std::memory_order_acq_rel);
      wake_all(finished_);
    }
  }
}

}  // namespace tandem
