// Gathers the ranks at rank 0's address and makes the chain of lines between neighbours.
#include "ranks/rendezvous.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
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
    o_.note(concat(note, count_ == most_notes ? "; no more of this is told" : ""));
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
    std::vector<std::string> hosts;  // as rank 0 sees them; of itself and of Unix sockets none
    for (const Socket& line : lines_) hosts.push_back(peer_of(line));
    for (std::size_t r = 1; r < lines_.size() && refusal_.empty(); ++r) refusal_ = out_of_reach(r, hosts);
    std::vector<Line> lines;
    for (std::size_t r = 1; r < lines_.size(); ++r) {
      if (!lines_[r].open()) continue;
      // Who came from this machine is, for another one, where that one found rank 0.
      const bool here = is_loopback(hosts[r - 1]) && !is_loopback(hosts[r]);
      const Answer answer{.refusal = refusal_, .token = token, .lower = {.host = here ? "" : hosts[r - 1], .place = doors_[r - 1].place}};
      send_all(lines_[r], &answer, sizeof answer, seconds_from_now(answer_seconds));
      lines.push_back({static_cast<int>(r), std::move(lines_[r])});
    }
    if (!refusal_.empty()) fail(ExitCode::communication, refusal_);
    return lines;
  }

 private:
  // Why it cannot be a rank of this run; empty: it can. Who has gone again has left its place.
  std::string refuse(const Hello& h) {
    if (h.ranks != o_.ranks) return concat("rank ", h.rank, " counts ", h.ranks, " ranks, rank 0 counts ", o_.ranks);
    if (h.rank < 1 || h.rank >= o_.ranks) return concat("rank ", h.rank, " came, expected ranks 1 to ", o_.ranks - 1);
    const Socket& line = lines_[static_cast<std::size_t>(h.rank)];
    return line.open() && !has_closed(line) ? concat("rank ", h.rank, " came twice") : "";
  }
  // Why rank r cannot come to the door of the rank before it; empty: it can.
  std::string out_of_reach(std::size_t r, const std::vector<std::string>& hosts) const {
    if (hosts[r].empty() || is_loopback(hosts[r]) || !is_loopback(doors_[r - 1].host.text())) return "";
    return concat("rank ", r - 1, " came to rank 0 by ", hosts[r - 1], ", where rank ", r, ", which came from ", hosts[r],
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
    g.token = answer.token;
    g.control.push_back({0, std::move(s)});
    return g;
  }
}

// `attempt(end)` until it is true, in turns, short ones first, so that a rank that is lost meanwhile ends the wait.
void wait_for(int rank, const WorldOptions& o, Control& control, const std::function<bool(Clock::time_point end)>& attempt) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  for (auto turn = first_turn;; turn = std::min(2 * turn, longest_turn)) {
    const Clock::time_point now = Clock::now();
    if (attempt(std::min(end, now + turn))) return;
    control.check();
    if (now >= end) control.missing(rank);
  }
}

}  // namespace

Greeting greet(const WorldOptions& o) {
  const Clock::time_point end = seconds_from_now(o.timeout_seconds);
  const Address address = parse_address(o.address);
  if (o.rank > 0) return visit(o, address, end);
  Greeting g;
  Socket listener = listen_at(address);
  const std::string host = own_host(listener);
  if (o.note && !means_loopback(address.host) && is_loopback(host))
    o.note(concat("'", printable(address.host), "' is ", host, " on this machine, so only its own ranks can come: others need an address of its network"));
  if (o.note && o.secret.empty() && !is_loopback(host) && !address.local())
    o.note(concat("without a secret anyone who reaches ", printable(to_string(address)), " can take a rank's place (",
                  option("secret_file"), ')'));
  std::tie(g.door, g.door_place) = listen_beside(address, host, o.rank);
  g.token = draw_token();
  Guests guests(o);
  guests.gather(std::move(listener), end);
  remove_place(address);
  g.control = guests.answer({own_host(g.door), g.door_place}, g.token);
  return g;
}

Neighbours join_neighbours(const WorldOptions& o, Greeting g, Control& control) {
  Neighbours n;
  const int below = o.rank - 1, above = o.rank + 1;
  // The door is served while this rank waits at the one below: otherwise a rank that hangs would hold up all above it.
  Reception door(std::move(g.door), o.secret);
  std::packaged_task<Socket(std::stop_token)> serve([&](std::stop_token ended) {
    while (!ended.stop_requested()) {
      std::optional<Reception::Guest> guest = door.next(Clock::now() + pause);
      if (guest && guest->hello.rank == above && guest->hello.ranks == o.ranks && guest->hello.token == g.token)
        return std::move(guest->line);
    }
    return Socket();
  });
  std::future<Socket> upper = serve.get_future();
  std::jthread porter;
  if (above < o.ranks) porter = std::jthread(std::move(serve));
  for (bool joined = o.rank == 0; !joined;) {  // the door below may have been full of strangers
    wait_for(below, o, control, [&](Clock::time_point end) { return (n.lower = connect_to(g.lower, end)).open(); });
    Introduction introduction(o.secret, {.rank = o.rank, .ranks = o.ranks, .token = g.token});
    if (introduction.open(n.lower, seconds_from_now(answer_seconds))) {
      wait_for(below, o, control, [&](Clock::time_point end) { return readable(n.lower, end); });
      joined = introduction.finish(n.lower, seconds_from_now(answer_seconds)) == Introduction::End::made;
    }
    if (!joined) std::this_thread::sleep_for(pause);
  }
  if (above < o.ranks) {
    wait_for(above, o, control, [&](Clock::time_point end) { return upper.wait_until(end) == std::future_status::ready; });
    n.upper = upper.get();
  }
  if (const Address address = parse_address(o.address); address.local()) remove_place({"", g.door_place.text()});
  return n;
}

}  // namespace tandem
