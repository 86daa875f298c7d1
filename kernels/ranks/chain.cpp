#include "kernels/ranks/chain.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "graph/error.h"

namespace tandem {

Chain::Chain(int rank, Neighbours neighbours, double timeout_seconds, Control& control)
    : rank_(rank), timeout_(timeout_seconds), lower_(std::move(neighbours.lower)), upper_(std::move(neighbours.upper)), control_(control) {}

// What can be read now; 0 where nothing is there.
std::int64_t Chain::receive(const Socket& from, int rank, std::byte* to, std::int64_t bytes) {
  if (bytes == 0) return 0;
  const ssize_t got = ::recv(from.get(), to, static_cast<std::size_t>(bytes), 0);
  if (got > 0) return got;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  control_.lost(rank);
}

std::int64_t Chain::send(const Socket& to, int rank, const std::byte* from, std::int64_t bytes) {
  if (bytes == 0) return 0;
  const ssize_t sent = ::send(to.get(), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  if (errno == EAGAIN || errno == EINTR) return 0;
  control_.lost(rank);
}

// Until one of the lines that are asked for is ready, or the ranks have stopped.
void Chain::wait(bool from_lower, bool to_lower, bool from_upper, bool to_upper) {
  const auto events = [](bool in, bool out) { return static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0)); };
  const auto line = [&](const Socket& s, short wanted) { return pollfd{s.open() && wanted ? s.get() : -1, wanted, 0}; };
  pollfd lines[] = {line(lower_, events(from_lower, to_lower)), line(upper_, events(from_upper, to_upper)),
                    {control_.stop_descriptor(), POLLIN, 0}};
  const auto end = seconds_from_now(timeout_);
  for (;;) {
    const int n = ::poll(lines, std::size(lines), milliseconds_until(end));
    if (n < 0 && errno == EINTR) continue;
    if (lines[2].revents) control_.raise();
    if (n == 0) control_.stalled();
    return;
  }
}

// The rank above compares what this rank calls with what it calls itself.
void Chain::announce(const Call& call) {
  const std::byte* const own = reinterpret_cast<const std::byte*>(&call);
  constexpr std::int64_t size = sizeof call;
  Call below;
  std::byte* const other = reinterpret_cast<std::byte*>(&below);
  std::int64_t sent = upper_.open() ? 0 : size, got = lower_.open() ? 0 : size;
  for (;;) {
    const std::int64_t before = sent + got;
    sent += send(upper_, rank_ + 1, own + sent, size - sent);
    got += receive(lower_, rank_ - 1, other + got, size - got);
    if (sent == size && got == size) break;
    if (sent + got == before) wait(got < size, false, false, sent < size);
  }
  if (!lower_.open() || below == call) return;
  const auto text = [](const Call& c) { return concat(c.bytes, " bytes of kind ", c.kind, " on channel ", c.channel); };
  const std::string reason = concat("it sums ", text(call), ", rank ", rank_ - 1, " sums ", text(below));
  control_.stop(reason);
  fail(ExitCode::communication, "rank ", rank_, ": ", reason);
}

void Chain::run(const Call& call, std::size_t element, std::byte* memory, const Fold& fold) {
  control_.enter_call();
  announce(call);
  const auto all = static_cast<std::int64_t>(call.bytes), size = static_cast<std::int64_t>(element);
  const bool bottom = !lower_.open(), top = !upper_.open();
  Progress at;
  std::int64_t staged = 0;  // bytes of staged_ that are not folded yet: less than an element between two turns
  for (;;) {
    const Progress before = at;
    const std::int64_t staged_before = staged;
    if (bottom) {
      // Only ahead of what is sent, so that the first bytes are on their way while the next are summed.
      const std::int64_t n = std::min(block / size * size, all - at.folded);
      if (at.folded == at.sent_up && n > 0) fold.call(fold.context, at.folded, n, nullptr), at.folded += n;
    } else {
      staged += receive(lower_, rank_ - 1, staged_.data() + staged, std::min(block - staged, all - at.folded - staged));
      const std::int64_t whole = staged / size * size;
      if (whole > 0) fold.call(fold.context, at.folded, whole, staged_.data());
      at.folded += whole, staged -= whole;
      if (staged > 0 && whole > 0) std::memmove(staged_.data(), staged_.data() + whole, static_cast<std::size_t>(staged));
    }
    if (top) {
      at.sent_up = at.come_down = at.folded;
    } else {
      at.sent_up += send(upper_, rank_ + 1, memory + at.sent_up, at.folded - at.sent_up);
      at.come_down += receive(upper_, rank_ + 1, memory + at.come_down, at.sent_up - at.come_down);
    }
    if (bottom)
      at.sent_down = at.come_down;
    else
      at.sent_down += send(lower_, rank_ - 1, memory + at.sent_down, at.come_down - at.sent_down);
    if (at.sent_down == all) return;
    if (at == before && staged == staged_before)
      wait(at.folded + staged < all, at.sent_down < at.come_down, at.come_down < at.sent_up, at.sent_up < at.folded);
  }
}

}  // namespace tandem
