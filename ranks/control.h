// The lines by which ranks tell each other that something is wrong, watched by a thread of their own. Rank 0 judges: it
// hears of every failure first and passes one reason on, so that all ranks name the same rank.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "ranks/rendezvous.h"

namespace tandem {

std::string damaged(int from, int to);  // what is said where a checksum differs

class Control {
 public:
  Control(int rank, std::vector<Line> lines, double timeout_seconds);
  ~Control();
  Control(const Control&) = delete;

  // Told by the threads that work, asked for by rank 0 when somebody waits too long.
  void enter_call() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void send_messages(int count) { messages_.fetch_add(static_cast<std::uint64_t>(count), std::memory_order_relaxed); }
  std::uint64_t messages() const { return messages_.load(std::memory_order_relaxed); }
  void wait_for(bool below, bool above) { waits_.store((below ? 1 : 0) | (above ? 2 : 0), std::memory_order_relaxed); }  // the neighbours
  // A device of this rank that waits for one of another, from begin to end of an exchange between them.
  struct Waiting {
    int own, other, rank;
    std::atomic<bool> now{false};
  };
  Waiting& add_waiting(int own, int other, int rank);  // to be set by who waits; lives as long as this
  // Between such devices.
  void moved(std::int64_t bytes) { moved_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed); }
  void be_busy(bool busy) { busy_.fetch_add(busy ? 1 : -1, std::memory_order_relaxed); }
  // While it lives, others may wait for this rank: it meets ranks, or plans.
  class Busy {
   public:
    explicit Busy(Control& control) : control_(control) { control_.be_busy(true); }
    ~Busy() { control_.be_busy(false); }
    Busy(const Busy&) = delete;

   private:
    Control& control_;
  };
  void be_leaving() { leaving_.store(true, std::memory_order_relaxed); }  // from now on others may end

  int rank() const { return rank_; }
  int stop_descriptor() const { return stopped_signal_; }  // readable as soon as the ranks have stopped
  [[noreturn]] void raise();                               // fails with the reason, which is known
  void check();                                            // raises where the ranks have stopped
  [[noreturn]] void end(const std::string& reason);        // stops all ranks, and fails with the first reason
  [[noreturn]] void missing(int rank);                     // it does not come within the timeout
  [[noreturn]] void lost(int rank);                        // the line to it broke: fails with the reason, once it is known
  void stalled();                                          // nothing came within the timeout: fails, or returns to wait on
  void stop(const std::string& reason);
  bool stopped();
  bool first_knows();  // the ranks have stopped, and rank 0, another one, hears why
  void on_stop(std::function<void(const std::string&)> call);
  void on_word(std::function<void(const std::string&)> call);

 private:
  // What goes over the lines: a kind, and a text where there is more to say, with a checksum of both.
  enum class Kind : std::uint32_t { stop, stalled, where, here, wait_on };
  struct Wait {
    int own = -1, other = -1, rank = -1;
  };
  struct Standing {
    bool known = false, busy = false;
    std::uint64_t calls = 0, moved = 0;
    bool below = false, above = false;  // it waits for the rank before, the rank after
    std::vector<Wait> waits;            // its devices for those of other ranks
    bool has_waiting(int device) const;
    std::string text() const;
    static Standing of(const std::string& text);
  };
  void send(const Line& line, Kind kind, const std::string& text = "");
  void watch();
  void receive(const Line& line);
  void ended(const Line& line);
  void inquire();
  void judge();
  void conclude(const std::string& reason, int reported_by, bool own = false);
  Standing own_standing();
  std::string at_fault(std::uint64_t most_calls) const;
  std::string dead_lines() const;

  const int rank_;
  const double timeout_;
  std::vector<Line> lines_;
  std::vector<bool> closed_;  // by line; the watcher's alone
  std::atomic<std::uint64_t> calls_{0}, moved_{0}, messages_{0};
  std::atomic<int> busy_{0}, waits_{0};
  std::atomic<bool> leaving_{false}, ending_{false}, first_lost_{false};
  int stopped_signal_, poke_;  // event descriptors

  std::mutex send_mutex_;  // whole frames
  std::mutex mutex_;       // of what follows
  std::condition_variable changed_;
  std::string reason_;             // empty: the ranks have not stopped
  bool first_knows_ = false;
  std::uint64_t patience_ = 0;     // how often rank 0 said to wait on
  bool asked_here_ = false;        // rank 0's own work stalled
  std::deque<Waiting> waiting_;

  std::mutex call_mutex_;  // held while it is called: who takes it back is not called any more
  std::function<void(const std::string&)> call_, word_;

  // Rank 0's inquiry, the watcher's alone.
  bool inquiring_ = false;
  Clock::time_point inquiry_end_;
  std::vector<Standing> standings_;  // by rank
  std::uint64_t last_progress_ = 0;  // of all ranks, where the last inquiry found none behind
  std::thread watcher_;
};

}  // namespace tandem
