// What a kernel costs: estimated from the device's model, or timed on the device and remembered in a file.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/device.h"
#include "planner/lower/quiet.h"
#include "planner/lower/timed_now.h"

namespace tandem {

struct Cost {
  double seconds = 0;
  bool measured = false;
};

// max(flops / rate, bytes / bandwidth) + launch
double estimate(double flops, double bytes, double efficiency, const DeviceModel& device);

class Tuner {
 public:
  // `cache_file` empty: nothing is read or kept. A damaged or foreign file or line is ignored: it is only measured again.
  // Times that were disturbed are kept too, marked, so that a run on a busy machine chooses as this one did. Where `quiet` says that
  // nothing disturbs now, they are taken again; one that is disturbed once more stays as it was and ends that. With `again` all that
  // the file has is timed once more. An undisturbed time replaces a disturbed one; of two alike the shorter stays, as other work on
  // the machine only adds. A kernel that lost the device while it was timed, or, but for the CPU's, ended its process, counts as one that
  // never ends until `again` times it once more. `before_each` is called before kernels are described or timed; it may throw.
  Tuner(const Backend& backend, bool measure, std::string cache_file, bool again = false, std::function<void()> before_each = {},
        std::function<bool()> quiet = machine_is_quiet, std::vector<std::string> without = {});
  // Writes the file where something was measured, with all that other processes have added meanwhile; a failure there costs only
  // time in the next run.
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // All ways to run a request; equal requests are described once. Without kernels whose names begin as one of `without`: a way around a
  // library's kernel that is found to be wrong.
  const std::vector<KernelDescription>& describe(const KernelRequest& request);
  // Whether a kernel was left out whose name begins so.
  bool left_out(const std::string& beginning) const { return left_out_.contains(beginning); }
  // Which of them are worth a closer look: those whose estimate is within a factor of the best one's, so that no time
  // is spent on timing a reference kernel. Never empty where `all` is not.
  std::vector<std::size_t> promising(const std::vector<KernelDescription>& all, double flops, const DeviceModel& device) const;
  Cost cost(const KernelRequest& request, const KernelDescription& description, double flops, const DeviceModel& device);
  const Backend& backend() const { return backend_; }
  // Of the times that cost() gave, how many there are, and how many of them were disturbed.
  std::size_t used() const { return used_.size(); }
  std::size_t disturbed() const;
  // The kernels that were not timed since one process ended with them, by name.
  std::vector<std::string> ended_processes() const;

 private:
  void read_file();
  void write_file();
  struct Timed {
    Timing timing;
    bool here = false;   // not only read from the file
    bool fatal = false;  // it ended a process
  };
  static Timed fatal();
  bool due(const Timed& timed);
  void keep(const std::string& key, const Timing& timing);
  void time(const std::string& key, const KernelRequest& request, const KernelDescription& description);
  const Backend& backend_;
  bool measure_;
  std::string cache_file_;
  bool again_, changed_ = false;
  std::function<void()> before_each_;
  std::unordered_map<std::string, std::vector<KernelDescription>> described_;
  std::unordered_map<std::string, Timed> timed_;
  std::set<std::string> used_;  // keys
  std::optional<TimedNow> now_;  // once something is timed
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
  std::vector<std::string> without_;  // beginnings of kernels' names
  std::set<std::string> left_out_;    // those of them that a kernel's name had
  std::function<bool()> ask_quiet_;
  std::optional<bool> quiet_;  // once it was asked for
};

}  // namespace tandem
