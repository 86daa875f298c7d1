// A line between two devices of different ranks, for exchanges among some of a plan's devices. Over each direction go streams, one
// behind the other: what is called, and bytes, with a checksum (CRC-32C) of each.
#pragma once
#include <poll.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ranks/call.h"
#include "ranks/control.h"
#include "ranks/pipe.h"

namespace tandem {

class Mpi;

// One thread at a time uses it. Each function fails (communication) as the World's do.
class Link {
 public:
  Link(std::unique_ptr<Pipe> pipe, int rank, Control& control, Control::Waiting& waiting)
      : pipe_(std::move(pipe)), rank_(rank), control_(control), waiting_(waiting) {}

  // Begin a stream each way, where the one before is at its end. What is sent must not change before all of it has gone.
  void send(const Call& call, std::span<const std::byte> bytes);
  void receive(const Call& call);
  // Both do what can be done at once. push() says whether anything went; pull() how many bytes it has put at `to`, where there
  // is room for so many.
  bool push();
  std::int64_t pull(std::byte* to, std::int64_t room);
  bool sent() const { return out_.done == out_.all(); }
  bool received() const { return in_.done == in_.all(); }
  bool is_of_one_machine() const;  // it is a Unix socket

 private:
  friend class Links;
  struct Header {
    Call call;
    std::uint32_t sum = 0, unused = 0;
  };
  struct Stream {
    Header header;
    std::int64_t bytes = -1, done = 0;  // done: of the header, the bytes and the checksum behind them
    std::uint32_t sum = 0, claimed = 0;  // computed here, and as the sender says
    std::int64_t data() const { return static_cast<std::int64_t>(sizeof(Header)); }
    std::int64_t end() const { return data() + bytes; }
    std::int64_t all() const { return bytes < 0 ? 0 : end() + static_cast<std::int64_t>(sizeof sum); }
  };
  void check_header();

  const std::unique_ptr<Pipe> pipe_;
  const int rank_;  // at the other end
  Control& control_;
  Control::Waiting& waiting_;
  Stream out_, in_;
  Call expected_;
  const std::byte* from_ = nullptr;            // what is sent
  std::int64_t summed_ = 0;                    // of it, in the checksum
  bool wants_out_ = false, wants_in_ = false;  // there was more to do than the pipe did
};

// One device's lines to the others of an exchange.
class Links {
 public:
  Links() = default;  // none
  // `mpi`: whose pipes they have; null: they have sockets.
  Links(std::vector<Link*> links, Control& control, double timeout_seconds, Mpi* mpi)
      : links_(std::move(links)), control_(&control), timeout_(timeout_seconds), mpi_(mpi), polled_(links_.size() + 1) {}
  std::size_t size() const { return links_.size(); }
  Link& operator[](std::size_t i) { return *links_[i]; }
  void wait();  // until one of them can go on
  // Of a device that waits for the others elsewhere: nothing came within the timeout, as Control::stalled(); bytes came.
  void stalled() { control_->stalled(); }
  void moved(std::int64_t bytes) { control_->moved(bytes); }

  // While it exists the others' ranks hear, where somebody asks, that this device waits for them.
  class Inside {
   public:
    explicit Inside(Links& links) : links_(links) { links_.set_waiting(true); }
    ~Inside() { links_.set_waiting(false); }
    Inside(const Inside&) = delete;

   private:
    Links& links_;
  };

 private:
  void set_waiting(bool now);
  bool wait_for_sockets();  // false: the time is over
  bool wait_for_messages();

  std::vector<Link*> links_;
  Control* control_ = nullptr;
  double timeout_ = 0;
  Mpi* mpi_ = nullptr;
  std::vector<pollfd> polled_;
};

}  // namespace tandem
