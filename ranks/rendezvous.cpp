// Gathers the ranks at rank 0's address and makes the chain of lines between neighbours.
#include "ranks/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/option.h"
#include "base/printable.h"
#include "ranks/control.h"

namespace tandem {
namespace {

constexpr double answer_seconds = 5;    // rank 0 answers when its own time is over
constexpr auto first_turn = std::chrono::milliseconds(500);     // most connections take less to be made
constexpr auto longest_turn = std::chrono::milliseconds(4000);  // by satellite
constexpr auto pause = std::chrono::milliseconds(100);
constexpr int most_notes = 5;  // of strangers: what is sent to a port must not fill a log

// Notes of strangers, not more than a few.
class Notes {
 public:
  explicit Notes(const WorldOptions& o) : o_(o) {}
  void add(const std::string& note) {
    if (++count_ > most_notes || !o_.note) return;
    o_.note(concat(note, count_ == most_notes ? "; no more of this is reported" : ""));
  }

 private:
  const WorldOptions& o_;
  int count_ = 0;
};

std::string from(const Socket& line) {
  const std::string peer = peer_of(line);
  return peer.empty() ? "" : concat(" from ", peer);
}

bool has_closed(const Socket& line) {
  char byte = 0;
  const ssize_t got = ::recv(line.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// Who has come to rank 0, and where each listens for the rank after it.
class Guests {
 public:
  explicit Guests(const WorldOptions& o) : o_(o), notes_(o), lines_(static_cast<std::size_t>(o.ranks)), doors_(lines_.size()) {}

  void gather(Socket listener, Clock::time_point end) {
    Reception reception(std::move(listener), o_.secret, [&](const std::string& peer, Reception::Fault fault) {
      const std::string who = concat("somebody came", peer.empty() ? "" : " from ", peer);
      const bool unknown = fault == Reception::Fault::no_rank;
      notes_.add(concat(who, unknown ? " who is no rank of this run" : " who does not have this run's secret", ", and was sent away"));
      if (!unknown && refused_.empty()) refused_ = concat(who, " without this run's secret");
    });
    while (!missing().empty()) {
      std::optional<Reception::Guest> guest = reception.next(end);
      if (!guest) {
        refusal_ = concat("waited ", o_.timeout_seconds, " s for ", missing(), refused_.empty() ? "" : "; sent away: ", refused_);
        return;
      }
      const int rank = guest->hello.rank;
      const std::string wrong = refuse(guest->hello);
      if (wrong.empty()) {
        lines_[static_cast<std::size_t>(rank)] = std::move(guest->line);
        doors_[static_cast<std::size_t>(rank)] = guest->hello.door;
        continue;
      }
      const Answer answer{.refusal = wrong};
      send_all(guest->line, &answer, sizeof answer, Clock::now());  // fits into an empty line; a stranger is not waited for
      notes_.add(concat(wrong, from(guest->line), ": it was sent away"));
      if (refused_.empty()) refused_ = wrong;
    }
  }

  // Tells everybody whether the group is made and where the rank before listens. Who has ended meanwhile is found out by its
  // line of control.
  std::vector<Line> answer(const Door& own_door, const Token& token) {
    doors_[0] = own_door;
    for (const Socket& line : lines_) hosts_.push_back(peer_of(line));
    for (std::size_t r = 1; r < lines_.size() && refusal_.empty(); ++r) refusal_ = out_of_reach(r);
    std::vector<Line> lines;
    for (std::size_t r = 1; r < lines_.size(); ++r) {
      if (!lines_[r].open()) continue;
      // Who came from this machine is, for another one, where that one found rank 0.
      const bool here = is_loopback(hosts_[r - 1]) && !is_loopback(hosts_[r]);
      const Answer answer{.refusal = refusal_, .token = token, .lower = {.host = here ? "" : hosts_[r - 1], .place = doors_[r - 1].place}};
      send_all(lines_[r], &answer, sizeof answer, seconds_from_now(answer_seconds));
      lines.push_back({static_cast<int>(r), std::move(lines_[r])});
    }
    if (!refusal_.empty()) fail(ExitCode::communication, refusal_);
    return lines;
  }
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  // Why it cannot be a rank of this run; empty: it can. Who has gone again has left its place.
  std::string refuse(const Hello& h) {
    if (h.ranks != o_.ranks) return concat("rank ", h.rank, " counts ", h.ranks, " ranks, rank 0 counts ", o_.ranks);
    if (h.rank < 1 || h.rank >= o_.ranks) return concat("rank ", h.rank, " came, expected ranks 1 to ", o_.ranks - 1);
    const Socket& line = lines_[static_cast<std::size_t>(h.rank)];
    return line.open() && !has_closed(line) ? concat("rank ", h.rank, " came twice") : "";
  }
  // Why rank r cannot come to the door of the rank before it; empty: it can.
  std::string out_of_reach(std::size_t r) const {
    if (hosts_[r].empty() || is_loopback(hosts_[r]) || !is_loopback(doors_[r - 1].host.text())) return "";
    return concat("rank ", r - 1, " came to rank 0 by ", hosts_[r - 1], ", where rank ", r, ", which came from ", hosts_[r],
                  ", cannot reach it: give both an address of their network");
  }
  std::string missing() const {
    std::string who;
    for (std::size_t r = 1; r < lines_.size(); ++r)
      if (!lines_[r].open() || has_closed(lines_[r])) who += concat(who.empty() ? "rank " : ", rank ", r);
    return who;
  }

  const WorldOptions& o_;
  Notes notes_;
  std::vector<Socket> lines_;  // by rank
  std::vector<Door> doors_;
  std::vector<std::string> hosts_;  // as rank 0 sees them, of who has come; of itself and of Unix sockets none
  std::string refusal_, refused_;  // of all; the first who was sent away
};

// An IPv6 address of a single network names the interface to it (fe80::2%eth0), which each machine calls as it likes.
std::string with_zone_of(const std::string& own, const std::string& host) {
  const std::size_t zone = host.find('%'), own_zone = own.find('%');
  return zone == std::string::npos || own_zone == std::string::npos ? host : host.substr(0, zone) + own.substr(own_zone);
}

// Goes to rank 0, which answers with where the rank before listens. A line that closes unanswered is made anew as long as
// somebody listens: this rank may have been held for a stranger.
Greeting visit(const WorldOptions& o, const Address& address, Clock::time_point end) {
  const std::string where = printable(to_string(address));
  Greeting g;
  for (bool again = false;; again = true) {
    Socket s = connect_to(address, again ? std::min(end, Clock::now() + 4 * first_turn) : end);
    if (!s.open() && again) fail(ExitCode::communication, "rank 0 at ", where, " ended before all ranks had come");
    if (!s.open()) fail(ExitCode::communication, "rank 0 does not answer at ", where, " within ", o.timeout_seconds, " s");
    const std::string at = means_all(address.host) ? address.host : own_host(s);
    if (!g.door.open()) std::tie(g.door, g.door_place) = listen_beside(address, at, o.rank);
    const auto answer_end = seconds_from_now(o.timeout_seconds + answer_seconds);  // rank 0's time began before
    Introduction introduction(o.secret, {.rank = o.rank, .ranks = o.ranks, .door = {own_host(g.door), g.door_place}});
    const auto met = introduction.open(s, end) ? introduction.finish(s, answer_end) : Introduction::End::closed;
    if (met == Introduction::End::stranger)
      fail(ExitCode::communication, "what listens at ", where, " is not rank 0 of this version of tandem");
    if (met == Introduction::End::cut) fail(ExitCode::communication, "rank 0 at ", where, " ended before all ranks had come");
    if (met == Introduction::End::refused)
      fail(ExitCode::communication, "rank 0 at ", where, ' ', introduction.difference(), ": give all ranks the same one (",
           option("secret_file"), ')');
    Answer answer;
    if (met == Introduction::End::closed || !receive_all(s, &answer, sizeof answer, answer_end)) {
      if (Clock::now() >= end) fail(ExitCode::communication, "rank 0 does not answer at ", where, " within ", o.timeout_seconds, " s");
      std::this_thread::sleep_for(pause);
      continue;
    }
    if (const std::string refusal = answer.refusal.text(); !refusal.empty()) fail(ExitCode::communication, printable(refusal));
    const std::string host = answer.lower.host.text();
    g.lower = {address.local() ? "" : host.empty() ? peer_of(s) : with_zone_of(own_host(s), host), answer.lower.place.text()};
    g.where = {at, {peer_of(s)}, answer.token};
    g.control.push_back({0, std::move(s)});
    return g;
  }
}

// `attempt(end)` until it is true, in turns, short ones first, so that a rank that is lost meanwhile ends the wait.
void wait_for(const std::function<int()>& rank, const WorldOptions& o, Control& control,
              const std::function<bool(Clock::time_point end)>& attempt) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  for (auto turn = first_turn;; turn = std::min(2 * turn, longest_turn)) {
    const Clock::time_point now = Clock::now();
    if (attempt(std::min(end, now + turn))) return;
    control.check();
    if (now >= end) control.missing(rank());
  }
}

// Who is to come to a door, and for which line.
struct Expected {
  int rank;
  LineName line;
};

// Serves a door in a thread of its own until all have come who are expected.
class Porter {
 public:
  Porter(const WorldOptions& o, Socket door, const Token& token, std::vector<Expected> expected)
      : o_(o), expected_(std::move(expected)), came_(expected_.size()), all_(done_.get_future()) {
    if (expected_.empty()) return;
    thread_ = std::jthread([this, token, d = std::move(door)](const std::stop_token& ended) mutable { serve(std::move(d), token, ended); });
  }

  // In the order in which they were expected.
  std::vector<Socket> lines(Control& control) {
    const auto here = [&](Clock::time_point end) { return all_.wait_until(end) == std::future_status::ready; };
    wait_for([&] { return first_missing_.load(); }, o_, control, here);
    all_.get();
    return std::move(came_);
  }

 private:
  void serve(Socket listener, const Token& token, const std::stop_token& ended) {
    Reception door(std::move(listener), o_.secret);
    for (std::size_t missing = 0; missing < expected_.size();) {
      first_missing_ = expected_[missing].rank;
      std::optional<Reception::Guest> guest = door.next(Clock::now() + pause);
      if (ended.stop_requested()) return;
      if (guest && guest->hello.ranks == o_.ranks && guest->hello.token == token)
        for (std::size_t i = 0; i < expected_.size(); ++i)
          if (guest->hello.rank == expected_[i].rank && guest->hello.line == expected_[i].line && !came_[i].open()) {
            came_[i] = std::move(guest->line);
            break;
          }
      while (missing < came_.size() && came_[missing].open()) ++missing;
    }
    done_.set_value();
  }

  const WorldOptions& o_;
  const std::vector<Expected> expected_;
  std::vector<Socket> came_;
  std::atomic<int> first_missing_{0};
  std::promise<void> done_;
  std::future<void> all_;
  std::jthread thread_;
};

// The door may be full of strangers: then once more.
Socket go_to_door(int rank, const Address& door, const Hello& hello, const WorldOptions& o, Control& control) {
  const auto that = [&] { return rank; };
  for (;;) {
    Socket line;
    wait_for(that, o, control, [&](Clock::time_point end) { return (line = connect_to(door, end)).open(); });
    Introduction introduction(o.secret, hello);
    if (introduction.open(line, seconds_from_now(answer_seconds))) {
      wait_for(that, o, control, [&](Clock::time_point end) { return readable(line, end); });
      if (introduction.finish(line, seconds_from_now(answer_seconds)) == Introduction::End::made) return line;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Socket share_address(WorldOptions& o) {
  if (!o.share) return {};
  if (o.rank > 0) {
    o.address = o.share("");
    if (o.address.empty()) fail(ExitCode::communication, "rank 0 told no address: it could not listen");
    return {};
  }
  Address address = parse_address(o.address);
  Socket listener;
  try {
    if (address.port == "0")
      std::tie(listener, address.port) = listen_beside(address, address.host, 0);
    else
      listener = listen_at(address);
  } catch (const Error&) {
    o.share("");
    throw;
  }
  o.address = to_string(address);
  o.share(o.address);
  return listener;
}

Greeting greet(const WorldOptions& o, Socket listener) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  const Address address = parse_address(o.address);
  if (o.rank > 0) return visit(o, address, end);
  Greeting g;
  if (!listener.open()) listener = listen_at(address);
  const std::string host = own_host(listener);
  if (o.note && !means_loopback(address.host) && is_loopback(host))
    o.note(concat("'", printable(address.host), "' is ", host,
                  " on this machine, so only its own ranks can come: others need an address of its network"));
  if (o.note && o.secret.empty() && !is_loopback(host) && !address.local())
    o.note(concat("without a secret anyone who reaches ", printable(to_string(address)), " can take a rank's place (",
                  option("secret_file"), ')'));
  std::tie(g.door, g.door_place) = listen_beside(address, host, o.rank);
  g.where = {host, {}, draw_token()};
  Guests guests(o);
  guests.gather(std::move(listener), end);
  remove_place(address);
  g.control = guests.answer({own_host(g.door), g.door_place}, g.where.token);
  g.where.seen = guests.hosts();
  return g;
}

Neighbours join_neighbours(const WorldOptions& o, Greeting g, Control& control) {
  Neighbours n;
  const Control::Busy meeting(control);
  const int below = o.rank - 1, above = o.rank + 1;
  // The door is served while this rank waits at the one below: otherwise a rank that hangs would hold up all above it.
  std::vector<Expected> upper;
  if (above < o.ranks) upper.push_back({above, {}});
  Porter porter(o, std::move(g.door), g.where.token, std::move(upper));
  if (o.rank > 0) n.lower = go_to_door(below, g.lower, {.rank = o.rank, .ranks = o.ranks, .token = g.where.token}, o, control);
  if (above < o.ranks) n.upper = std::move(porter.lines(control).at(0));
  if (const Address address = parse_address(o.address); address.local()) remove_place({"", g.door_place.text()});
  return n;
}

LineName name_of(const DeviceLine& l) { return {l.low.device, l.low.stream, l.high.device, l.high.stream}; }

std::vector<Socket> open_lines(const WorldOptions& o, const Whereabouts& where, std::span<const DeviceLine> lines, Control& control,
                               const std::function<void(std::span<std::byte>)>& gather) {
  const Address address = parse_address(o.address);
  const auto self = static_cast<std::size_t>(o.rank);
  std::vector<Expected> expected;
  for (const DeviceLine& l : lines)
    if (l.low_rank == o.rank) expected.push_back({l.high_rank, name_of(l)});

  std::vector<Door> doors(static_cast<std::size_t>(o.ranks));  // where each listens, as rank 0 sees it
  Socket door;
  if (!expected.empty()) std::tie(door, doors[self].place) = listen_beside(address, where.own, o.rank);
  for (std::size_t r = 0; o.rank == 0 && r < doors.size(); ++r) doors[r].host = where.seen[r];
  gather(std::as_writable_bytes(std::span(doors)));

  const Control::Busy meeting(control);  // another rank may have all its lines before
  const std::vector<Expected> guests = expected;
  Porter porter(o, std::move(door), where.token, std::move(expected));
  std::vector<Socket> open(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const DeviceLine& l = lines[i];
    if (l.high_rank != o.rank) continue;
    const Door& there = doors[static_cast<std::size_t>(l.low_rank)];
    const std::string host = there.host.text();
    // Who came to rank 0 from its own machine is, for another one, where that one found rank 0.
    const bool at_first = host.empty() || (is_loopback(host) && !is_loopback(doors[self].host.text()));
    const Address to{address.local() ? "" : at_first ? where.seen[0] : with_zone_of(where.seen[0], host), there.place.text()};
    open[i] = go_to_door(l.low_rank, to, {.rank = o.rank, .ranks = o.ranks, .token = where.token, .line = name_of(l)}, o, control);
  }
  if (guests.empty()) return open;
  std::vector<Socket> came = porter.lines(control);
  for (std::size_t i = 0, next = 0; i < lines.size(); ++i)
    if (lines[i].low_rank == o.rank) open[i] = std::move(came[next++]);
  if (address.local()) remove_place({"", doors[self].place.text()});
  return open;
}

}  // namespace tandem
