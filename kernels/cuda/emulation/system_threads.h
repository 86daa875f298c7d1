// A block's threads as threads of the system: slow, as each barrier wakes them all, but sanitizers see what they share.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::cuda::emulation {

// Threads that wait here sleep: those of std::barrier yield again and again, hundreds of them at a time.
class SystemBarrier {
 public:
  explicit SystemBarrier(int threads) : threads_(threads), missing_(threads) {}
  void arrive_and_wait() {
    std::unique_lock hold(lock_);
    if (--missing_ == 0) {
      missing_ = threads_;
      ++turn_;
      hold.unlock();
      changed_.notify_all();
      return;
    }
    changed_.wait(hold, [this, turn = turn_] { return turn_ != turn; });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  const int threads_;
  int missing_;
  unsigned turn_ = 0;
};

// Threads that are kept from launch to launch: to start hundreds of them takes longer than most launches.
class SystemThreads {
 public:
  ~SystemThreads() {
    for (const auto& w : workers_) w->give(nullptr);
  }
  // Calls job(w) for each w below `count`, each in a thread of its own, and waits for all of them.
  void run(int count, const std::function<void(int)>& job) {
    while (std::ssize(workers_) < count) workers_.push_back(std::make_unique<Worker>(*this, static_cast<int>(workers_.size())));
    running_ = count;
    for (int w = 0; w < count; ++w) workers_[static_cast<std::size_t>(w)]->give(&job);
    std::unique_lock hold(lock_);
    ended_.wait(hold, [this] { return running_ == 0; });
  }

 private:
  class Worker {
   public:
    Worker(SystemThreads& pool, int number) : thread_([this, &pool, number] { work(pool, number); }) {}
    void give(const std::function<void(int)>* job) {  // null: the last
      {
        const std::scoped_lock hold(lock_);
        job_ = job;
        given_ = true;
      }
      changed_.notify_one();
    }

   private:
    void work(SystemThreads& pool, int number) {
      for (;;) {
        std::unique_lock hold(lock_);
        changed_.wait(hold, [this] { return given_; });
        given_ = false;
        if (!job_) return;
        (*job_)(number);
        const std::scoped_lock end(pool.lock_);
        if (--pool.running_ == 0) pool.ended_.notify_one();
      }
    }
    std::mutex lock_;
    std::condition_variable changed_;
    const std::function<void(int)>* job_ = nullptr;
    bool given_ = false;
    std::jthread thread_;  // last: it uses all of the above
  };
  std::mutex lock_;
  std::condition_variable ended_;
  int running_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;  // last, as above
};

}  // namespace tandem::cuda::emulation
