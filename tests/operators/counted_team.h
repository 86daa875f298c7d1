// Stands in for a team of threads: runs a kernel's parts one after another and notes how long each took. What is counted is how many
// threads have work, at each moment of a run in which every thread has a core of its own.
#pragma once
#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "kernels/cpu/native/team.h"
#include "kernels/kernel.h"

namespace tandem {

class CountedTeam final : public native::Team {
 public:
  CountedTeam() { native::stand_in = this; }
  ~CountedTeam() override { native::stand_in = nullptr; }
  CountedTeam(const CountedTeam&) = delete;
  CountedTeam& operator=(const CountedTeam&) = delete;

  void run(int parts, const std::function<void(int)>& part) override {
    if (next_ == regions_.size()) regions_.emplace_back(static_cast<std::size_t>(parts), never);
    std::vector<double>& shortest = regions_[next_++];
    const double start = now();
    for (std::size_t k = 0; k < shortest.size(); ++k) {
      const double begin = now();
      part(static_cast<int>(k));
      shortest[k] = std::min(shortest[k], now() - begin);
    }
    inside_ += now() - start;
  }

  // Runs a bound kernel several times; the shortest time of each part counts, as other programs disturb single ones.
  void count(Kernel& kernel) {
    regions_.clear();
    outside_ = never;
    const double begin = now();
    for (int run = 0; run < least_runs || (run < most_runs && now() - begin < enough_seconds); ++run) {
      next_ = 0;
      inside_ = 0;
      const double start = now();
      kernel.run({});
      outside_ = std::min(outside_, now() - start - inside_);
    }
  }

  // Of the last kernel. A part that takes less than a tenth of the longest one's time has nothing to do. Times of parts that run side by
  // side, and of what one thread does alone, are the weights of the mean.
  double threads() const {
    double sum = alone(), all = alone();
    for (const std::vector<double>& parts : regions_) {
      const double longest = *std::max_element(parts.begin(), parts.end());
      const auto busy = std::count_if(parts.begin(), parts.end(), [&](double t) { return t >= longest / 10; });
      sum += static_cast<double>(busy) * longest;
      all += longest;
    }
    return sum / all;
  }
  // By how much all threads together are faster than one, were each as fast as it is alone.
  double speedup() const {
    double work = alone(), all = alone();
    for (const std::vector<double>& parts : regions_) {
      work += std::accumulate(parts.begin(), parts.end(), 0.0);
      all += *std::max_element(parts.begin(), parts.end());
    }
    return work / all;
  }
  // Seconds that one thread works and all others wait, without what starting a team takes in any case.
  double alone() const { return std::max(0.0, outside_ - start_seconds); }
  const std::vector<std::vector<double>>& regions() const { return regions_; }

 private:
  static constexpr double never = 1e9, enough_seconds = 0.05, start_seconds = 5e-6;
  static constexpr int least_runs = 5, most_runs = 20;
  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  std::vector<std::vector<double>> regions_;  // by call of parallel(), the shortest seconds of each part
  std::size_t next_ = 0;
  double inside_ = 0, outside_ = never;
};

}  // namespace tandem
