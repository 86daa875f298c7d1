// What ranks send each other over real sockets, with a bit turned over on the way.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "ranks/chain.h"

namespace tandem {
namespace {

std::pair<Socket, Socket> connected() {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0) throw std::runtime_error("no sockets");
  return {Socket(both[0]), Socket(both[1])};
}

// A line between two ranks that turns over one bit of what goes up or down it, by its place in that stream.
class BadLine {
 public:
  struct Flip {
    bool up = true;
    std::int64_t bit = -1;  // none
  };
  explicit BadLine(Flip flip) : flip_(flip) {
    auto [a, b] = connected();
    auto [c, d] = connected();
    lower = std::move(a);
    upper = std::move(d);
    thread_ = std::thread([this, b = std::move(b), c = std::move(c)]() mutable { carry(b, c); });
  }
  ~BadLine() {
    ended_ = true;
    thread_.join();
  }
  Socket lower, upper;  // the ends

 private:
  void carry(Socket& b, Socket& c) {
    std::int64_t passed[2] = {};
    bool open[2] = {true, true};
    while (!ended_) {
      pollfd sockets[] = {{open[0] ? b.get() : -1, POLLIN, 0}, {open[1] ? c.get() : -1, POLLIN, 0}};
      if (::poll(sockets, 2, 5) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (!sockets[i].revents) continue;
        char bytes[4096];
        const ssize_t n = ::recv(sockets[i].fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
          open[i] = false;
          ::shutdown(i == 0 ? c.get() : b.get(), SHUT_WR);
          continue;
        }
        const std::int64_t at = flip_.bit / 8 - passed[i];
        if (flip_.bit >= 0 && flip_.up == (i == 0) && at >= 0 && at < n) bytes[at] = static_cast<char>(bytes[at] ^ (1 << flip_.bit % 8));
        passed[i] += n;
        send_all(i == 0 ? c : b, bytes, static_cast<std::size_t>(n), seconds_from_now(10));
      }
    }
  }
  const Flip flip_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

void add_up(void* context, std::int64_t at, std::int64_t bytes, const std::byte* partial) {
  if (!partial) return;
  auto* const sums = reinterpret_cast<float*>(static_cast<std::byte*>(context) + at);
  const auto* const below = reinterpret_cast<const float*>(partial);
  for (std::int64_t i = 0; i < bytes / 4; ++i) sums[i] += below[i];
}

// What two ranks failed with that summed `values` over a line; empty where they did not.
std::array<std::string, 2> sum_over(BadLine& line, std::vector<float> (&values)[2]) {
  std::array<std::string, 2> failures;
  auto [first, second] = connected();
  std::vector<Line> lines[2];
  lines[0].push_back({1, std::move(first)});
  lines[1].push_back({0, std::move(second)});
  Neighbours neighbours[2];
  neighbours[0].upper = std::move(line.lower);
  neighbours[1].lower = std::move(line.upper);
  std::vector<std::thread> ranks;
  std::atomic<int> done = 0;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      Control control(r, std::move(lines[r]), 20);
      Chain chain(r, std::move(neighbours[r]), 20, control);
      std::vector<float>& own = values[r];
      auto* const memory = reinterpret_cast<std::byte*>(own.data());
      try {
        chain.run({.kind = 0, .channel = 3, .bytes = 4 * own.size()}, 4, memory, {memory, add_up});
      } catch (const Error& e) {
        failures[static_cast<std::size_t>(r)] = e.what();
      }
      for (++done; done < 2;) std::this_thread::yield();  // none ends its lines before
    });
  for (std::thread& t : ranks) t.join();
  return failures;
}

TEST(RankLine, EveryBitThatIsTurnedOverIsToldWithItsRanks) {
  const std::string up = "what rank 0 sent to rank 1 was damaged on the way: its checksum differs",
                    down = "what rank 1 sent to rank 0 was damaged on the way: its checksum differs";
  constexpr std::int64_t call = 24 + 4, sums = 4 * 5 + 4;  // bytes, with their checksums
  const auto run = [](BadLine::Flip flip) {
    BadLine line(flip);
    std::vector<float> values[2] = {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}};
    return sum_over(line, values);
  };
  EXPECT_EQ(run({}), (std::array<std::string, 2>{}));
  for (std::int64_t byte = 0; byte < call + sums; ++byte)
    EXPECT_EQ(run({true, 8 * byte + byte % 8}), (std::array{up, up})) << "byte " << byte << " on the way up";
  for (std::int64_t byte = 0; byte < sums; ++byte)
    // rank 1 may have returned: it hears of it later
    EXPECT_EQ(run({false, 8 * byte + byte % 8})[0], down) << "byte " << byte << " on the way down";
}

TEST(RankLine, DamageInTheMidstOfMuchIsTold) {
  for (const bool damaged : {false, true}) {
    BadLine line({true, damaged ? 8 * 1234567 : -1});
    std::vector<float> values[2] = {std::vector<float>(500000, 1), std::vector<float>(500000, 2)};
    const auto failures = sum_over(line, values);
    EXPECT_EQ(failures[0].empty(), !damaged) << failures[0];
    if (!damaged) {
      for (int r = 0; r < 2; ++r)
        for (std::size_t i = 0; i < values[r].size(); ++i) ASSERT_EQ(values[r][i], 3.0F) << "rank " << r << ", " << i;
    }
  }
}

// The line that tells what is wrong may itself be bad: then that is told.
TEST(RankLine, AMessageThatIsDamagedIsTold) {
  const std::string reason = "the disk is full", told = "rank 1: the disk is full";
  constexpr std::int64_t header = 16;
  for (std::int64_t byte = -1; byte < header + std::ssize(told); ++byte) {
    BadLine line({true, byte < 0 ? -1 : 8 * byte + byte % 8});
    std::vector<Line> first, second;
    second.push_back({0, std::move(line.lower)});
    first.push_back({1, std::move(line.upper)});
    Control zero(0, std::move(first), 20), one(1, std::move(second), 20);
    std::atomic<bool> stopped = false;
    std::string heard;
    zero.on_stop([&](const std::string& text) { heard = text, stopped = true; });
    one.stop(reason);
    for (int i = 0; i < 10000 && !stopped; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    zero.on_stop({});
    EXPECT_EQ(heard, byte < 0 ? told : "what rank 1 sent to rank 0 was damaged on the way: its checksum differs") << "byte " << byte;
    one.be_leaving();
    zero.be_leaving();
  }
}

TEST(RankLine, WhatAnotherRankSaysDoesNotCommandTheTerminal) {
  auto [a, b] = connected();
  std::vector<Line> first, second;
  first.push_back({1, std::move(a)});
  second.push_back({0, std::move(b)});
  Control zero(0, std::move(first), 20), one(1, std::move(second), 20);
  std::atomic<bool> stopped = false;
  std::string heard;
  zero.on_stop([&](const std::string& text) { heard = text, stopped = true; });
  one.stop("\x1b[2Jgone\nand more");
  for (int i = 0; i < 10000 && !stopped; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  zero.on_stop({});
  EXPECT_EQ(heard, "rank 1: \\x1b[2Jgone\nand more");
  one.be_leaving();
  zero.be_leaving();
}

}  // namespace
}  // namespace tandem
