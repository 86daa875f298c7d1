// Where the threads of all ranks of a process wait for each other.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::cuda {

class Meeting {
 public:
  Meeting(int ranks, double timeout_seconds) : arrived_(static_cast<std::size_t>(ranks), false), timeout_(timeout_seconds) {}
  // Returns when every rank has called it once more. Fails (communication) naming the ranks that are missing after the
  // timeout, or with the reason of abort().
  void wait(int rank);
  void abort(const std::string& reason);

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<bool> arrived_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  double timeout_;
  std::string aborted_;
};

}  // namespace tandem::cuda
