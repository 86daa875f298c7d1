// How the processes of a group find each other: rank 0's process listens, the others connect and say who they are, and
// all of them keep the line open, so that each learns when another ends or stops the group.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::cuda {

using SharedSecret = std::array<char, 128>;  // what rank 0 hands out: NCCL's id

struct Member {
  int first_rank = 0, ranks = 0;  // of one process
};

class Bootstrap {
 public:
  struct Options {
    std::string address;  // "host:port"
    Member self;
    int ranks = 0;        // over all processes
    std::string plan_hash;
    double timeout_seconds = 60;
  };
  // Fails (communication) in every process where a rank does not come in time, comes twice, or has another plan.
  Bootstrap(const Options& options, SharedSecret& secret);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // From now on `stopped` is called, once and from another thread, when another process ends or stops the group.
  void watch(std::function<void(const std::string& reason)> stopped);
  void stop(const std::string& reason);  // tells the others

 private:
  struct Line {
    int socket = -1;
    Member member;
  };
  void gather(SharedSecret& secret);
  void join(SharedSecret& secret);
  void watch_lines(const std::function<void(const std::string&)>& stopped);
  void close_all();

  Options options_;
  std::vector<Line> lines_;  // rank 0: to every other process; the others: to rank 0
  std::thread watcher_;
  std::atomic<bool> ending_{false};
};

}  // namespace tandem::cuda
