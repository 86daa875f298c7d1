// One thread a device. Each run wakes all of them, gives them the same job and waits until all have ended. Nothing here
// locks or allocates on the way.
#pragma once
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem {

// What an exception says.
std::string reason_of(const std::exception_ptr& error);

class Workers {
 public:
  // `threads`: how many threads the devices use in all; it decides whether waiting may spin.
  Workers(int workers, int threads);
  ~Workers();
  Workers(const Workers&) = delete;

  struct Failure {
    int worker = -1;  // the first to fail
    std::exception_ptr error;
  };

  // Calls job(worker) on every worker. A worker whose job throws calls failed(worker, exception_ptr) as long as the
  // others still run, so that it can wake them. Returns the first failure, or one with worker -1.
  template <class Job, class Failed>
  Failure run(const Job& job, const Failed& failed) {
    using Pair = std::pair<const Job*, const Failed*>;
    Pair pair{&job, &failed};
    return run_call({&pair, [](void* p, int worker) { (*static_cast<Pair*>(p)->first)(worker); },
                     [](void* p, int worker, const std::exception_ptr& e) { (*static_cast<Pair*>(p)->second)(worker, e); }});
  }

 private:
  struct Call {
    void* context = nullptr;
    void (*job)(void*, int) = nullptr;
    void (*failed)(void*, int, const std::exception_ptr&) = nullptr;
  };
  Failure run_call(const Call& call);
  void work(int worker);

  Call call_;
  const int spins_;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};     // one more for each run
  alignas(64) std::atomic<std::uint32_t> finished_{0};  // the last epoch that all workers ended
  alignas(64) std::atomic<int> running_{0};
  std::atomic<bool> failing_{false};
  Failure failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem
