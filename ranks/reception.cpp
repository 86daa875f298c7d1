// Serves all visitors of a port at once: whoever is slow, silent or a stranger holds up nobody.
#include "ranks/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace tandem {
namespace {

constexpr double message_seconds = 2;  // a rank opens as soon as it has connected, and answers a challenge at once
constexpr std::size_t most_visitors = 64;

}  // namespace

Reception::Reception(Socket listener, const std::string& secret, SentAway sent_away)
    : listener_(std::move(listener)), secret_(secret), sent_away_(std::move(sent_away)) {}

void Reception::send_away(std::list<Visitor>::iterator visitor, Fault fault) {
  if (sent_away_) sent_away_(peer_of(visitor->line), fault);
  visitors_.erase(visitor);
}

// All who wait at the door; the oldest visitors make room.
void Reception::admit() {
  for (std::size_t i = 0; i < most_visitors; ++i) {
    Socket line = accept_from(listener_);
    if (!line.open()) return;
    if (visitors_.size() == most_visitors) send_away(visitors_.begin(), Fault::no_rank);
    visitors_.push_back({.line = std::move(line), .end = seconds_from_now(message_seconds)});
    if (!same_user(visitors_.back().line)) send_away(std::prev(visitors_.end()), Fault::no_rank);
  }
}

// Reads what has come of the message that is expected, and answers an opening.
Reception::Heard Reception::listen_to(Visitor& v) {
  auto* const message = v.challenge ? reinterpret_cast<std::byte*>(&v.hello) : reinterpret_cast<std::byte*>(&v.opening);
  const std::size_t size = v.challenge ? sizeof v.hello : sizeof v.opening;
  const ssize_t got = ::recv(v.line.get(), message + v.got, size - v.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::part;
  if (got <= 0) return v.challenge && v.got == 0 ? Heard::no_secret : Heard::nonsense;  // a rank that has another leaves
  v.got += static_cast<std::size_t>(got);
  if (!v.challenge && v.got >= sizeof v.opening.magic && v.opening.magic != protocol) return Heard::nonsense;
  if (v.got < size) return Heard::part;
  if (v.challenge) return secret_.made(v.hello, v.opening, *v.challenge) ? Heard::all : Heard::no_secret;
  v.challenge = secret_.answer(v.opening);
  v.end = seconds_from_now(message_seconds);
  v.got = 0;
  const ssize_t sent = ::send(v.line.get(), &*v.challenge, sizeof *v.challenge, MSG_NOSIGNAL);  // an empty line takes it whole
  return sent == sizeof *v.challenge ? Heard::part : Heard::nonsense;
}

std::optional<Reception::Guest> Reception::next(Clock::time_point end) {
  for (;;) {
    for (auto v = visitors_.begin(); v != visitors_.end();) {
      const auto visitor = v++;
      switch (listen_to(*visitor)) {
        case Heard::all: {
          Guest guest{std::move(visitor->line), visitor->hello.hello};
          visitors_.erase(visitor);
          return guest;
        }
        case Heard::nonsense: send_away(visitor, Fault::no_rank); break;
        case Heard::no_secret: send_away(visitor, Fault::no_secret); break;
        case Heard::part:
          if (Clock::now() >= visitor->end) send_away(visitor, Fault::no_rank);
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
