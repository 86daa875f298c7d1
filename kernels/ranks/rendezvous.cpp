#include "kernels/ranks/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "graph/error.h"
#include "kernels/ranks/control.h"

namespace tandem {
namespace {

constexpr std::uint32_t magic = 0x546e6d31;  // of this protocol's version
constexpr std::size_t most_text = 1 << 16;
constexpr double greeting_seconds = 2;  // a stranger who connects and says nothing
constexpr double answer_seconds = 5;    // rank 0 answers when its own time is over
constexpr auto turn = std::chrono::milliseconds(500);  // longer than a connection takes to be made

struct Hello {
  std::uint32_t magic;
  std::int32_t rank, ranks;
};

bool receive_hello(const Socket& s, Hello& hello) {
  return receive_all(s, &hello, sizeof hello, seconds_from_now(greeting_seconds)) && hello.magic == magic;
}

// Who has come to rank 0, and where each listens for the rank after it.
class Guests {
 public:
  explicit Guests(const WorldOptions& o) : o_(o), lines_(static_cast<std::size_t>(o.ranks)), places_(lines_.size()) {}

  void gather(const Socket& listener, Clock::time_point end) {
    for (int present = 1; present < o_.ranks && refusal_.empty();) {
      Socket s = accept_from(listener, end);
      if (!s.open()) {
        refuse(concat("waited ", o_.timeout_seconds, " s for ", missing()));
        break;
      }
      Hello hello{};
      std::string place;
      if (!receive_hello(s, hello) || !receive_text(s, place, seconds_from_now(greeting_seconds))) continue;  // not one of ours
      const auto r = static_cast<std::size_t>(hello.rank);
      if (hello.ranks != o_.ranks)
        refuse(concat("rank ", hello.rank, " counts ", hello.ranks, " ranks, rank 0 counts ", o_.ranks));
      else if (hello.rank < 1 || hello.rank >= o_.ranks)
        refuse(concat("rank ", hello.rank, " came, expected ranks 1 to ", o_.ranks - 1));
      else if (lines_[r].open())
        refuse(concat("rank ", hello.rank, " came twice"));
      else {
        lines_[r] = std::move(s), places_[r] = {peer_of(lines_[r]), place}, ++present;
        continue;
      }
      send_text(s, refusal_, seconds_from_now(answer_seconds));
    }
  }

  // Tells everybody whether the group is made and where the rank before listens; a rank on this machine is where rank 0
  // is. Who has ended meanwhile is found out by its line of control.
  std::vector<Line> answer(const std::string& own_place) {
    places_[0].second = own_place;
    std::vector<Line> lines;
    for (std::size_t r = 1; r < lines_.size(); ++r) {
      if (!lines_[r].open()) continue;
      const auto end = seconds_from_now(answer_seconds);
      const auto& [host, place] = places_[r - 1];
      std::vector<std::string> texts{refusal_};
      if (refusal_.empty()) texts.insert(texts.end(), {is_loopback(host) ? "" : host, place});
      for (const std::string& text : texts)
        if (!send_text(lines_[r], text, end)) break;
      lines.push_back({static_cast<int>(r), std::move(lines_[r])});
    }
    if (!refusal_.empty()) fail(ExitCode::communication, refusal_);
    return lines;
  }

 private:
  void refuse(std::string reason) {
    if (refusal_.empty()) refusal_ = std::move(reason);
  }
  std::string missing() const {
    std::string who;
    for (std::size_t r = 1; r < lines_.size(); ++r)
      if (!lines_[r].open()) who += concat(who.empty() ? "rank " : ", rank ", r);
    return who;
  }

  const WorldOptions& o_;
  std::vector<Socket> lines_;  // by rank
  std::vector<std::pair<std::string, std::string>> places_;
  std::string refusal_;
};

// Goes to rank 0, which answers with where the rank before listens.
std::pair<Socket, Address> visit(const WorldOptions& o, const Address& address, const std::string& own_place, Clock::time_point end) {
  Socket s = connect_to(address, end);
  if (!s.open()) fail(ExitCode::communication, "rank 0 does not answer at ", address, " within ", o.timeout_seconds, " s");
  const Hello hello{magic, o.rank, o.ranks};
  const auto answer_end = seconds_from_now(o.timeout_seconds + answer_seconds);  // rank 0's time began before
  std::string refusal, host, place;
  if (!send_all(s, &hello, sizeof hello, end) || !send_text(s, own_place, end) || !receive_text(s, refusal, answer_end))
    fail(ExitCode::communication, "rank 0 at ", address, " ended before all ranks had come");
  if (!refusal.empty()) fail(ExitCode::communication, refusal);
  if (!receive_text(s, host, answer_end) || !receive_text(s, place, answer_end))
    fail(ExitCode::communication, "rank 0 at ", address, " ended before all ranks had come");
  Address lower{address.local() ? "" : host.empty() ? peer_of(s) : host, place};
  return {std::move(s), std::move(lower)};
}

// `attempt(end)` until it gives a socket, in short turns, so that a rank that is lost meanwhile ends the wait.
template <class Attempt>
Socket wait_for(int rank, const WorldOptions& o, Control& control, const Attempt& attempt) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (Socket s = attempt(std::min(end, now + turn)); s.open()) return s;
    control.check();
    if (now >= end) control.missing(rank);
  }
}

}  // namespace

bool send_text(const Socket& socket, const std::string& text, Clock::time_point end) {
  const auto size = static_cast<std::uint32_t>(std::min(text.size(), most_text));
  return send_all(socket, &size, sizeof size, end) && send_all(socket, text.data(), size, end);
}

bool receive_text(const Socket& socket, std::string& text, Clock::time_point end) {
  std::uint32_t size = 0;
  if (!receive_all(socket, &size, sizeof size, end) || size > most_text) return false;
  text.resize(size);
  return receive_all(socket, text.data(), size, end);
}

Greeting greet(const WorldOptions& o) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  const Address address = parse_address(o.address);
  Greeting g;
  std::tie(g.door, g.door_place) = listen_beside(address, o.rank);
  if (o.rank == 0) {
    const Socket listener = listen_at(address);
    Guests guests(o);
    guests.gather(listener, end);
    g.control = guests.answer(g.door_place);
    if (address.local()) ::unlink(address.port.c_str());
  } else {
    auto [line, lower] = visit(o, address, g.door_place, end);
    g.control.push_back({0, std::move(line)});
    g.lower = std::move(lower);
  }
  return g;
}

Neighbours join_neighbours(const WorldOptions& o, Greeting g, Control& control) {
  Neighbours n;
  if (o.rank > 0) {
    n.lower = wait_for(o.rank - 1, o, control, [&](Clock::time_point end) { return connect_to(g.lower, end); });
    const Hello hello{magic, o.rank, o.ranks};
    if (!send_all(n.lower, &hello, sizeof hello, seconds_from_now(answer_seconds))) control.lost(o.rank - 1);
  }
  if (o.rank + 1 < o.ranks)
    n.upper = wait_for(o.rank + 1, o, control, [&](Clock::time_point end) {
      Socket s = accept_from(g.door, end);
      Hello hello{};
      return s.open() && receive_hello(s, hello) && hello.rank == o.rank + 1 ? std::move(s) : Socket();
    });
  if (parse_address(o.address).local()) ::unlink(g.door_place.c_str());
  return n;
}

}  // namespace tandem
