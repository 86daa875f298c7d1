// Serves all visitors of a port at once: whoever is slow, silent or a stranger holds up nobody.
#include "ranks/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace tandem {
namespace {

constexpr double greeting_seconds = 2;  // a rank says its hello as soon as it has connected
constexpr std::size_t most_visitors = 64;

}  // namespace

Reception::Reception(Socket listener, std::function<void(const std::string&)> sent_away)
    : listener_(std::move(listener)), sent_away_(std::move(sent_away)) {}

void Reception::send_away(std::list<Visitor>::iterator visitor) {
  if (sent_away_) sent_away_(peer_of(visitor->line));
  visitors_.erase(visitor);
}

// All who wait at the door; the oldest visitors make room.
void Reception::admit() {
  for (std::size_t i = 0; i < most_visitors; ++i) {
    Socket line = accept_from(listener_);
    if (!line.open()) return;
    if (visitors_.size() == most_visitors) send_away(visitors_.begin());
    visitors_.push_back({.line = std::move(line), .end = seconds_from_now(greeting_seconds)});
    if (!same_user(visitors_.back().line)) send_away(std::prev(visitors_.end()));
  }
}

Reception::Heard Reception::listen_to(Visitor& v) {
  auto* const hello = reinterpret_cast<std::byte*>(&v.hello);
  const ssize_t got = ::recv(v.line.get(), hello + v.got, sizeof(Hello) - v.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::part;
  if (got <= 0) return Heard::nonsense;
  v.got += static_cast<std::size_t>(got);
  if (v.got >= sizeof v.hello.magic && v.hello.magic != protocol) return Heard::nonsense;
  return v.got == sizeof(Hello) ? Heard::all : Heard::part;
}

std::optional<Reception::Guest> Reception::next(Clock::time_point end) {
  for (;;) {
    for (auto v = visitors_.begin(); v != visitors_.end();) {
      const auto visitor = v++;
      switch (listen_to(*visitor)) {
        case Heard::all: {
          Guest guest{std::move(visitor->line), visitor->hello};
          visitors_.erase(visitor);
          return guest;
        }
        case Heard::nonsense: send_away(visitor); break;
        case Heard::part:
          if (Clock::now() >= visitor->end) send_away(visitor);
      }
    }
    if (Clock::now() >= end) return std::nullopt;
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    Clock::time_point first = end;
    for (const Visitor& v : visitors_) {
      sockets.push_back({v.line.get(), POLLIN, 0});
      first = std::min(first, v.end);
    }
    if (::poll(sockets.data(), sockets.size(), milliseconds_until(first)) > 0 && sockets[0].revents) admit();
  }
}

}  // namespace tandem
